// @ts-check
// Menus of chips and axes. Python says what they offer; each item carries its own gesture.

import { all, around, focusedBy, h, targetOf } from "./dom.js";
import { release } from "./drag.js";
import { TERMS } from "./help.js";
import { askWhy } from "./why.js";
/** @import { Ask, MenuChoices, MenuEntry, MenuItem } from "./types/table_cells.d.ts" */
/** @import { Gesture, Marked, Wb } from "./types/board_context.d.ts" */

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
  if (refocus) (around(anchor, ".image") ?? anchor).focus({ preventScroll: true }); // no mark of a picture takes the focus
}

/**
 * @param {Wb} wb
 * @param {Marked} anchor
 * @param {MenuEntry[]} items
 * @param {object} [fields]
 */
export function openMenu(wb, anchor, items, fields = {}) {
  const again = wb.menu?.anchor === anchor;
  closeMenu(wb, false);
  if (again) return;
  release(wb);
  /** @param {Gesture} gesture */
  const choose = (gesture) => {
    closeMenu(wb, true);
    if (gesture.verb === "why") askWhy(wb, String(gesture.of), anchor);
    else wb.send({ ...gesture, ...fields });
  };
  const element = h(
    "div",
    { class: "menu", role: "menu" },
    ...items.map((item) => {
      if (item.heading !== undefined) return h("div", { class: "heading", role: "presentation" }, item.heading);
      if (item.choices !== undefined) return drawChoices(item, choose);
      return drawItem(item, () => (item.ask ? askName(wb, element, item, item.ask, choose) : choose(item.gesture)));
    }),
  );
  element.addEventListener("keydown", (event) => walkMenu(wb, element, event));
  wb.card.append(element);
  placeMenu(wb.card, element, anchor);
  wb.menu = { element, anchor };
  anchor.setAttribute("aria-expanded", "true");
  element.querySelector("button")?.focus({ preventScroll: true });
}

/**
 * @param {MenuItem} item
 * @param {() => void} onclick
 * @returns {HTMLElement}
 */
function drawItem(item, onclick) {
  const title = TERMS.get(item.label.toLowerCase())?.says ?? "";
  return h(
    "button",
    { type: "button", role: "menuitem", class: item.reason ? "barred" : "", title, onclick },
    item.label,
    item.note && h("small", { class: "note" }, item.note),
    item.reason && h("small", {}, item.reason),
  );
}

/**
 * A row of small options: one of them holds, or any number.
 * @param {MenuChoices} item
 * @param {(gesture: Gesture) => void} choose
 * @returns {HTMLElement}
 */
function drawChoices(item, choose) {
  return h(
    "div",
    { class: "optionrow", role: "group", ariaLabel: item.choices },
    h("span", { ariaHidden: "true", title: TERMS.get(item.choices.toLowerCase())?.says ?? "" }, item.choices),
    ...item.options.map((option) =>
      h("button", {
        type: "button",
        role: item.many ? "menuitemcheckbox" : "menuitemradio",
        ariaChecked: String(option.checked),
        class: option.reason ? "barred" : "",
        title: option.reason ?? "",
        onclick: () => choose(option.gesture),
      }, option.label)
    ),
  );
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
    element.style.left = `${at.right + 4 - frame.left}px`; // beside it, not over it
  }
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} element
 * @param {KeyboardEvent} event
 */
function walkMenu(wb, element, event) {
  if (event.key === "Escape") {
    event.preventDefault();
    closeMenu(wb);
    return;
  }
  const at = targetOf(event), inRow = at.closest(".optionrow");
  const step = { ArrowDown: 1, ArrowUp: -1, ...(inRow ? { ArrowRight: 1, ArrowLeft: -1 } : {}) }[event.key];
  if (!step || at.matches("input")) return;
  event.preventDefault();
  const buttons = all(element, "button");
  const now = buttons.findIndex((each) => each === focusedBy(element));
  buttons[(now + step + buttons.length) % buttons.length]?.focus();
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} element
 * @param {MenuItem} item
 * @param {Ask} ask
 * @param {(gesture: Gesture) => void} choose
 */
function askName(wb, element, item, ask, choose) {
  const offered = ask.options ? h("datalist", { id: `offered-${wb.view}` }, ...ask.options.map((value) => h("option", { value }))) : null;
  const input = h("input", {
    class: "field",
    value: ask.value,
    ariaLabel: ask.label,
    maxLength: 400,
    list: offered?.id,
    placeholder: ask.options ? `${ask.label} …` : "",
  });
  element.setAttribute("role", "dialog"); // a menu holds items, and no field
  element.ariaLabel = item.label;
  element.replaceChildren(h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        choose({ ...item.gesture, name: input.value });
      },
    },
    input,
    offered,
    h("button", { class: "btn primary", type: "submit", style: "width:auto;display:inline-block" }, ask.verb),
  ));
  input.focus();
  input.select();
}
