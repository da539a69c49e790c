// @ts-check
// Menus of chips and axes, opened from known items or requested from Python; each item carries its gesture.

import { all, focusedBy, h, targetOf } from "./dom.js";
import { aim, release, takes } from "./drag.js";
import { closeMenu, placeMenu } from "./popup.js";
import { askWhy, TERMS } from "./terms.js";
/** @import { Ask, MenuChoices, MenuEntry, MenuItem } from "./types/table_cells.d.ts" */
/** @import { Gesture, LazyChip, Marked, Wb } from "./types/board_context.d.ts" */
/** @import { Reasons, Taken } from "./types/states.d.ts" */

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
 * A row of toggle buttons, exclusive or not.
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
  const now = buttons.findIndex((button) => button === focusedBy(element));
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
  element.setAttribute("role", "dialog"); // a menu must not contain fields
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
 * Handles the answer to `take`: legal targets of the chip in hand, or the requested menu.
 * @param {Wb} wb
 * @param {Taken | null} answer
 */
export function takenUp(wb, answer) {
  if (!answer) return;
  const held = wb.held;
  if (held?.chip.lazy && held.chip.key === answer.key) {
    held.chip.illegal = /** @type {Reasons} */ (answer.illegal);
    aim(wb);
  }
  if (wb.asked?.key === answer.key) {
    const { anchor, find } = wb.asked;
    wb.asked = null;
    const now = anchor.isConnected ? anchor : find ? find() : all(wb.card, ".grip").find((grip) => grip.dataset.focus === answer.key); // the anchor may have been replaced by a repaint
    if (now) openMenu(wb, now, answer.menu, { zone: "tables" });
  }
}
