// @ts-check
// Pop-ups anchored to an element: menus, glossary entries and refusals.

import { around, drawProblem, h } from "./dom.js";
/** @import { Refusal } from "./types/states.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {boolean} [refocus]
 */
export function closeMenu(wb, refocus = true) {
  if (!wb.menu) return;
  const { element, anchor } = wb.menu;
  wb.menu = null;
  element.remove();
  anchor.setAttribute("aria-expanded", "false");
  if (refocus) (around(anchor, ".image") ?? anchor).focus({ preventScroll: true }); // marks of a picture are not focusable
}

/**
 * @param {HTMLElement} card
 * @param {HTMLElement} element
 * @param {Element} anchor
 */
export function placeMenu(card, element, anchor) {
  const frame = card.getBoundingClientRect(), at = anchor.getBoundingClientRect();
  element.style.left = `${Math.max(4, Math.min(at.left - frame.left, frame.width - element.offsetWidth - 4))}px`;
  const height = element.offsetHeight, room = window.innerHeight - 8;
  const above = at.top - height - 4;
  const top = at.bottom + 4 + height <= room ? at.bottom + 4 : above >= 8 ? above : Math.max(8, room - height);
  element.style.top = `${top - frame.top}px`;
  if (top < at.bottom && top + height > at.top && at.right + 4 + element.offsetWidth < frame.right) {
    element.style.left = `${at.right + 4 - frame.left}px`;
  }
}

/**
 * @param {Wb} wb
 * @param {Refusal} refusal
 * @returns {HTMLElement}
 */
export function drawRefusal(wb, refusal) {
  return h(
    "div",
    { class: "refusal", role: "alert" },
    ...drawProblem(refusal),
    refusal.edits?.length
      ? h(
        "div",
        { class: "ways" },
        ...refusal.edits.map((edit) =>
          h("button", { class: "btn small", type: "button", onclick: () => wb.send({ verb: "mend", edit, zone: refusal.zone }) }, edit)
        ),
      )
      : null,
    h("button", { class: "more close", type: "button", ariaLabel: "Dismiss", onclick: () => wb.send({ verb: "dismiss" }) }, "×"),
  );
}
