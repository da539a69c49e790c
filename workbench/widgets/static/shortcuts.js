// @ts-check
// Keys that the whole card hears.

/** @import { Wb } from "./types/board_context.d.ts" */

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
