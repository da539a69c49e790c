// @ts-check
// What the parts of a board share: its elements, what is in the hand, and how to reach Python.

/** @import { Outbox, Wb } from "./types/board_context.d.ts" */

/**
 * @param {HTMLElement} root
 * @param {HTMLElement} card
 * @param {HTMLElement} live
 * @param {Outbox} box
 * @param {(() => Promise<string>) | undefined} [library]
 * @returns {Wb}
 */
export function makeWb(root, card, live, box, library) {
  return {
    root,
    card,
    view: box.view,
    send: box.send,
    expect: box.expect,
    library,
    say: (words) => {
      live.textContent = words;
    },
    paint: () => {},
    turnTheme: () => {},
    toggleHelp: () => {},
    theme: "auto",
    held: null,
    dragging: false,
    whileDragging: null,
    optimistic: false,
    placed: false,
    only: false,
    foreseeing: undefined,
    board: card,
    chips: new Map(),
    axes: [],
    wanted: null,
    menu: null,
    asked: null,
    asker: null,
    tour: null,
    layout: undefined,
    selected: "",
    linked: new Set(),
    sorts: new Map(),
    wholeLayout: false,
    focusTab: false,
  };
}
