// @ts-check
// How the program is traced, in the head: what layers keep for the backward pass, in which types it computes, what stays on the host.

import { drawRefusal } from "./board.js";
import { h } from "./dom.js";
import { openMenu } from "./menus.js";
/** @import { Refusal, TracedAs } from "./types/states.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {TracedAs} state
 * @param {Refusal | null} refusal
 * @returns {HTMLElement | null}
 */
export function drawTracedAs(wb, state, refusal) {
  if (!state.options.length) return null;
  const drawn = state.options.map(({ key, label, value, title, menu }) => {
    const button = h("button", {
      class: "btn small",
      type: "button",
      title,
      ariaLabel: `${label}: ${value}`,
      ariaHasPopup: "menu",
      data: { focus: `traced-${key}` },
      onclick: () => openMenu(wb, button, menu),
    }, `${value} ▾`);
    return h("span", { class: "tracedas", data: { option: key } }, h("span", { class: "muted" }, label), button);
  });
  return h("div", { class: "program", role: "group", ariaLabel: "Program" }, ...drawn, refusal ? drawRefusal(wb, refusal) : null);
}
