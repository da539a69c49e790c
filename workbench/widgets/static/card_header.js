// @ts-check
// The head of the card: the program, its mesh and layout, the tools, the hardware.

import { h } from "./dom.js";
import { headTools } from "./files.js";
import { drawHardware } from "./hardware.js";
import { drawTracedAs } from "./traced_as.js";
import { helpTools } from "./help.js";
/** @import { HeadState, Wb } from "./types/board_context.d.ts" */

const LONG_LAYOUT = 320; // characters, from which a layout is cut to a few lines: a recipe may say two dozen things

/**
 * @param {Wb} wb
 * @param {string} layout
 * @returns {HTMLElement[]}
 */
function drawLayout(wb, layout) {
  const text = h("div", { class: "mono layout" }, layout);
  if (layout.length < LONG_LAYOUT) return [text];
  const show = () => {
    text.classList.toggle("cut", !wb.wholeLayout);
    turn.ariaExpanded = String(Boolean(wb.wholeLayout));
    turn.textContent = wb.wholeLayout ? "Less of the layout" : "All of the layout";
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
