// @ts-check
// The card header: program, mesh, layout, tools and hardware.

import { h } from "./dom.js";
import { headTools } from "./files.js";
import { drawHardware } from "./hardware.js";
import { helpTools } from "./help.js";
import { openMenu } from "./menus.js";
import { drawRefusal } from "./popup.js";
/** @import { HeadState, Wb } from "./types/board_context.d.ts" */
/** @import { Refusal, TracedAs } from "./types/states.d.ts" */

const LONG_LAYOUT = 40; // characters; a longer layout is cut to the rest of its line, so that the drop zones stay in place

/**
 * @param {Wb} wb
 * @param {string} layout
 * @returns {HTMLElement[]}
 */
function drawLayout(wb, layout) {
  const text = h("div", { class: "mono layout", title: layout }, layout);
  if (layout.length < LONG_LAYOUT) return [text];
  const show = () => {
    text.classList.toggle("cut", !wb.wholeLayout);
    turn.ariaExpanded = String(Boolean(wb.wholeLayout));
    turn.textContent = wb.wholeLayout ? "Collapse layout" : "Show full layout";
  };
  const turn = h("button", {
    class: "whole",
    type: "button",
    data: { focus: "layout" },
    onclick: () => {
      wb.wholeLayout = !wb.wholeLayout;
      show();
    },
  });
  show();
  return [text, turn];
}

/**
 * Tracing options: rematerialization, precision and host offloading.
 * @param {Wb} wb
 * @param {TracedAs} state
 * @param {Refusal | null} refusal
 * @returns {HTMLElement | null}
 */
function drawTracedAs(wb, state, refusal) {
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

/**
 * @param {Wb} wb
 * @param {HTMLElement} parent
 * @param {HeadState} state
 */
export function drawHead(wb, parent, state) {
  /**
   * @param {string} verb
   * @param {string} sign
   * @param {string | null} title
   */
  const tool = (verb, sign, title) =>
    h("button", {
      class: "btn icon",
      type: "button",
      disabled: title === null,
      title: title ?? verb,
      ariaLabel: title ?? verb,
      data: { verb, focus: verb },
      onclick: () => wb.send({ verb }),
    }, sign);
  /** @param {{ zone: string }} choice */
  const refused = ({ zone }) => (state.refusal?.zone === zone ? state.refusal : null);
  parent.replaceChildren(
    h(
      "div",
      { class: "names" },
      h(
        "div",
        { class: "line" },
        h("h1", {}, state.name),
        h("span", { class: "mono mesh" }, `${state.mesh}`),
        h("span", { class: "muted" }, state.devices),
      ),
      h("div", { class: "line" }, ...drawLayout(wb, state.layout), drawTracedAs(wb, state.program, refused(state.program))),
    ),
    h(
      "div",
      { class: "tools" },
      tool("undo", "↶", state.undo),
      tool("redo", "↷", state.redo),
      ...headTools(wb, state.tools),
      ...helpTools(wb),
    ),
    drawHardware(wb, state.hardware, refused(state.hardware)),
  );
}
