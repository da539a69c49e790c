// @ts-check
// A chip of the tables is taken: Python is asked where it may go, or for its menu, and answers. The keys of a row, too.

import { all, around, targetOf } from "./dom.js";
import { aim } from "./drag.js";
import { closeMenu, openMenu } from "./menus.js";
/** @import { Reasons, Taken } from "./types/states.d.ts" */
/** @import { Gesture, LazyChip, Marked, Wb } from "./types/board_context.d.ts" */

/**
 * @param {LazyChip} chip
 * @param {boolean} menu
 * @returns {Gesture}
 */
export const takes = (chip, menu) => ({
  verb: "take",
  menu,
  key: chip.key,
  of: chip.of,
  path: chip.path,
  rank: chip.rank,
  place: chip.place,
  source: chip.source,
});

/**
 * The answer to `take`: marks for the chip in hand, or the menu that was asked for.
 * @param {Wb} wb
 * @param {Taken | null} taken
 */
export function takenUp(wb, taken) {
  if (!taken) return;
  const held = wb.held;
  if (held?.chip.lazy && held.chip.key === taken.key) {
    held.chip.illegal = /** @type {Reasons} */ (taken.illegal); // of a chip in hand they are told
    aim(wb);
  }
  if (wb.asked?.key === taken.key) {
    const { anchor, find } = wb.asked;
    wb.asked = null;
    const now = anchor.isConnected ? anchor : find ? find() : all(wb.card, ".grip").find((grip) => grip.dataset.focus === taken.key); // a repaint may have come first
    if (now) openMenu(wb, now, taken.menu, { zone: "tables" });
  }
}

/**
 * @param {Wb} wb
 * @param {LazyChip} chip
 * @param {Marked} anchor
 */
export function askMenu(wb, chip, anchor) {
  if (wb.menu?.anchor === anchor) {
    closeMenu(wb);
    return;
  }
  wb.asked = { key: chip.key, anchor };
  wb.send(takes(chip, true));
}

/**
 * Arrows within a table: left and right over a row's buttons, up and down to the row before and after.
 * @param {Wb} wb
 * @param {KeyboardEvent} event
 * @returns {boolean}
 */
export function walkRow(wb, event) {
  const at = targetOf(event), row = around(at, "tbody > tr");
  if (!row || wb.held) return false;
  /**
   * @param {Element} tr
   * @returns {HTMLElement[]}
   */
  const buttons = (tr) => all(tr, ".fold, .grip, .own, .ask");
  const mine = buttons(row), now = mine.indexOf(at);
  if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
    const next = now + (event.key === "ArrowRight" ? 1 : -1);
    if (next === -1 && now === 0 && row.dataset.subject) row.focus();
    else mine[next]?.focus();
    return next >= -1 && mine.length > 0;
  }
  const next = /** @type {HTMLElement | null | undefined} */ (
    { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key]
  );
  if (!next || now < 0) return false;
  const others = buttons(next);
  (others[Math.min(now, others.length - 1)] ?? next).focus();
  return true;
}
