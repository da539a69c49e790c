// @ts-check
// What colleagues in the same room have before their eyes and in their hands: an outline in their colour, with their name.

import { all } from "./dom.js";
import { namesPath } from "./select.js";
/** @import { Colleague, Wb } from "./types/board_context.d.ts" */

/**
 * After every paint: the rows and marks that a colleague has selected, and the dimension that one holds.
 * @param {Wb} wb
 * @param {Colleague[]} colleagues
 */
export function markColleagues(wb, colleagues) {
  if (!colleagues.length && !wb.root.querySelector(".theirs")) return;
  for (const each of all(wb.root, "[data-subject], .chip[data-chip]")) {
    const theirs = colleagues.find((colleague) => hasIt(colleague, each));
    if (each.dataset.theirs === (theirs?.name ?? undefined)) continue;
    each.classList.toggle("theirs", Boolean(theirs));
    if (theirs) {
      each.dataset.theirs = theirs.name;
      each.style.setProperty("--theirs", theirs.colour);
      each.style.setProperty("--their-name", JSON.stringify(theirs.name)); // a text of CSS, for the first cell of a row
    } else {
      delete each.dataset.theirs;
      each.style.removeProperty("--theirs");
      each.style.removeProperty("--their-name");
    }
  }
}

/**
 * @param {Colleague} colleague
 * @param {HTMLElement} element
 * @returns {boolean}
 */
function hasIt({ selected, hand }, element) {
  const { subject, chip } = element.dataset;
  if (chip) return hand !== "" && chip.startsWith(`${hand}@`);
  return Boolean(subject && selected) && (namesPath(subject ?? "", selected) || namesPath(selected, subject ?? ""));
}
