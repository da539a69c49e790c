// @ts-check
// A chip in its zone, and its optimistic placement until Python answers.

import { makeDraggable } from "./chip_input.js";
import { all, h, the } from "./dom.js";
import { zoneElements } from "./drag.js";
import { openMenu } from "./menus.js";
/** @import { Chip } from "./types/states.d.ts" */
/** @import { Mark } from "./types/table_cells.d.ts" */
/** @import { BoardEvents, Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {Chip} chip
 * @returns {HTMLElement}
 */
export function drawChip(wb, chip) {
  const grip = h(
    "button",
    {
      class: "grip",
      type: "button",
      tabIndex: -1,
      ariaPressed: "false",
      ariaLabel: chip.title,
      "aria-roledescription": "draggable dimension",
      data: { focus: chip.key, dim: chip.dim, source: chip.source },
    },
    chip.order && h("span", { class: "order", data: { order: chip.order } }, chip.order),
    h("b", {}, chip.dim),
    h("span", { class: "muted" }, chip.size),
    ...drawMarks(chip.marks),
  );
  const more = h("button", {
    class: "more",
    type: "button",
    tabIndex: -1,
    ariaLabel: `Menu of ${chip.dim}`,
    ariaHasPopup: "menu",
    onclick: () => openMenu(wb, more, chip.menu, { zone: chip.source }),
  }, "⋯");
  const element = h(
    "span",
    { class: "chip", data: { chip: chip.key }, title: chip.title },
    grip,
    h("span", { class: "slot" }, h("span", { class: "carried", ariaHidden: "true" }, `×${chip.carried}`), more),
  );
  element.addEventListener("contextmenu", (event) => {
    event.preventDefault();
    openMenu(wb, more, chip.menu, { zone: chip.source });
  });
  makeDraggable(wb, element, grip, more, chip);
  return element;
}

/**
 * Marks of manual settings: open, late, grouped, barred.
 * @param {Mark[] | undefined} marks
 * @returns {HTMLElement[]}
 */
export const drawMarks = (marks) => (marks ?? []).map((mark) => h("i", { class: "set", title: mark.title }, mark.text));

/**
 * Shows a chip in the zone where it was dropped.
 * @param {Wb} wb
 * @param {BoardEvents["dropped"]} drop
 */
export function showDropped(wb, { chip, axis, add }) {
  wb.wanted = `${chip.dim}@${axis}`;
  wb.optimistic = true;
  const element = all(wb.board, ".chip").find((candidate) => candidate.dataset.chip === chip.key);
  const zone = zoneElements(wb).find((candidate) => candidate.dataset.axis === axis);
  if (element && zone && !add) showPending(wb, element, zone, { ...chip, key: `${chip.dim}@${axis}`, source: axis, illegal: {}, menu: [] });
}

/**
 * A pending chip can be picked up again at once; Python validates the result.
 * @param {Wb} wb
 * @param {Element} element
 * @param {Element} zone
 * @param {Chip} chip
 */
function showPending(wb, element, zone, chip) {
  const pending = drawChip(wb, chip);
  pending.classList.add("pending");
  element.remove();
  wb.chips.set(chip.key, chip);
  the(zone, ".chips").append(pending);
}
