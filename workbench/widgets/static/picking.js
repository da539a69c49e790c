// @ts-check
// Selects a whole value in a graph or a source line; Python answers with one menu for all its dimensions.

import { all, h, one } from "./dom.js";
import { closeMenu } from "./popup.js";
import { isChosen } from "./select.js";
/** @import { LineCell } from "./types/table_cells.d.ts" */
/** @import { Marked, Wb } from "./types/board_context.d.ts" */

const PICKED = ":is([data-tab=graph],[data-tab=propagation]) .image [data-subject]";

/**
 * @param {Wb} wb
 * @param {"box" | "line"} of
 * @param {string} path
 * @param {Marked} anchor
 * @param {number | null} [rank]
 */
function openValueMenu(wb, of, path, anchor, rank = null) {
  if (wb.menu?.anchor === anchor) {
    closeMenu(wb);
    return;
  }
  wb.asked = {
    key: `${of} ${path}`,
    anchor,
    find: () => (of === "box" ? boxOf(wb, path) : one(wb.root, `[data-focus="${CSS.escape(anchor.dataset.focus ?? "")}"]`)),
  };
  wb.send({ verb: "take", menu: true, key: wb.asked.key, of, path, rank, source: "*" });
}

/**
 * @param {Wb} wb
 * @param {string} path
 * @returns {Marked | undefined}
 */
const boxOf = (wb, path) => /** @type {Marked[]} */ (all(wb.root, PICKED)).find((mark) => mark.dataset.subject === path);

/**
 * Selects the box, so that its row is marked, and opens its menu.
 * @param {Wb} wb
 * @param {Marked} mark
 */
function pickBox(wb, mark) {
  const path = mark.dataset.subject ?? "";
  if (!isChosen(wb, path)) wb.send({ verb: "select", path });
  wb.say(`${path} selected.`);
  openValueMenu(wb, "box", path, mark);
}

/**
 * @param {Element} mark
 * @returns {boolean}
 */
const isBox = (mark) => mark.matches(PICKED);

/**
 * Opens the menu of a clicked box instead of only selecting it.
 * @param {Wb} wb
 */
export function makeBoxesPickable(wb) {
  wb.subscribe("picked", (mark) => {
    if (!isBox(mark)) return false;
    pickBox(wb, mark);
    return true;
  });
}

/**
 * @param {Wb} wb
 * @param {LineCell} cell
 * @returns {HTMLElement}
 */
export function drawLine(wb, cell) {
  const pick = h("button", {
    class: "ask number linepick",
    type: "button",
    tabIndex: -1,
    title: `Annotate values of ${cell.line}`,
    ariaLabel: `${cell.line}. Annotate the values of this line`,
    ariaHasPopup: "menu",
    data: { focus: `line ${cell.line} ${cell.rank}` },
    onclick: () => openValueMenu(wb, "line", cell.line, pick, cell.rank),
  }, cell.text);
  return pick;
}
