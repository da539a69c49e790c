// @ts-check
// The context shared by all parts of a board: its elements, the chip in hand, messages to Python, events and keyboard shortcuts.

/** @import { BlockDrawers } from "./types/table_cells.d.ts" */
/** @import { BoardEvents, Outbox, Wb } from "./types/board_context.d.ts" */

/**
 * A synchronous event bus; subscribers run in the order in which they subscribed.
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
 * Handles undo and redo, and stops plain keys from reaching JupyterLab, which would run them as cell commands.
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

/** What a click acts on. A list of choices is left out: its release may not reach the page. */
const PRESSABLE = "a, button, label, summary, [data-opens], [data-subject]";
const TAP_DELAY = 50; // milliseconds in which a browser turns a touch into a click

/**
 * Defers `paint` while something is pressed: a repaint would replace it before its release, and the browser would send no click.
 * @param {HTMLElement} root
 * @param {() => void} paint
 * @param {AbortSignal} signal
 * @returns {() => void}
 */
export function paintAfterPress(root, paint, signal) {
  let pressed = false, waiting = false;
  const act = () => {
    waiting = pressed;
    if (!pressed) paint();
  };
  /** @param {Event} event */
  const press = (event) => {
    const [target] = event.composedPath();
    pressed = target instanceof Element && !(/** @type {PointerEvent} */ (event).button) && target.closest(PRESSABLE) !== null;
  };
  /** @param {Event} event */
  const release = (event) => {
    if (!pressed) return;
    const delay = /** @type {PointerEvent} */ (event).pointerType === "touch" ? TAP_DELAY : 0;
    setTimeout(() => { // after the click, which follows the release
      pressed = false;
      if (waiting) act();
    }, delay);
  };
  root.addEventListener("pointerdown", press, { capture: true, signal });
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, release, { capture: true, signal });
  return act;
}
