// @ts-check
// What the parts of a board share: its elements, what is in the hand, how to reach Python, what is told to all, and keys that the card hears.

/** @import { BlockDrawers } from "./types/table_cells.d.ts" */
/** @import { BoardEvents, Outbox, Wb } from "./types/board_context.d.ts" */

/**
 * Parts that know nothing of each other hear of what happens: at once, in the order in which they subscribed.
 * @returns {Pick<Wb, "publish" | "subscribe">}
 */
export function makeEvents() {
  /** @type {{ [E in keyof BoardEvents]: ((what: BoardEvents[E]) => boolean | void)[] }} */
  const listeners = { dropped: [], selected: [], opened: [], picked: [] };
  return {
    publish: (event, what) => listeners[event].map((listener) => listener(what)).includes(true),
    subscribe: (event, listener) => {
      listeners[event].push(listener);
    },
  };
}

/**
 * @param {HTMLElement} root
 * @param {HTMLElement} card
 * @param {HTMLElement} live
 * @param {Outbox} box
 * @param {(() => Promise<string>) | undefined} library
 * @param {BlockDrawers | null} [drawers]
 * @returns {Wb}
 */
export function makeWb(root, card, live, box, library, drawers = null) {
  return {
    ...makeEvents(),
    root,
    card,
    view: box.view,
    send: box.send,
    expect: box.expect,
    library,
    drawers,
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
    previews: null,
    previewed: "",
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
    focusTab: "",
  };
}

/**
 * Undo and redo; and no plain key leaves the card, or JupyterLab would take it for a command of the cell.
 * @param {Wb} wb
 * @param {KeyboardEvent} event
 */
export function onShortcut(wb, event) {
  const command = event.ctrlKey || event.metaKey;
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (command && event.key.toLowerCase() === "z" && !typing) {
    event.preventDefault();
    event.stopPropagation();
    wb.send({ verb: event.shiftKey ? "redo" : "undo" });
  } else if (event.key === "?" && !typing) {
    event.preventDefault();
    event.stopPropagation();
    wb.toggleHelp();
  } else if (!command && !event.altKey) event.stopPropagation();
}
