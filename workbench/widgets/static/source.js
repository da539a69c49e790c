// @ts-check
// The source lines around the origin of the selected value; a line that produced values can be selected.

import { h, painter } from "./dom.js";
/** @import { SourceState } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/** @param {Wb} wb */
export function sourceSection(wb) {
  const name = h("span", { class: "mono" }), code = h("div", { class: "code", tabIndex: 0, role: "group", ariaLabel: "Source lines" });
  const section = h("section", { class: "source", hidden: true, ariaLabel: "Source" }, h("h2", {}, "Source ", name), code);
  /** @type {Paint<SourceState | null>} */
  const paint = painter((state) => {
    section.hidden = !state;
    if (!state) return;
    name.textContent = state.line;
    code.replaceChildren(
      ...(state.lines.length ? state.lines.map((line) => drawLine(wb, state, line)) : [h("p", {}, "The file is not available here.")]),
    );
    code.querySelector(".here")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  return { section, paint };
}

/**
 * @param {Wb} wb
 * @param {SourceState} state
 * @param {SourceState["lines"][number]} line
 * @returns {HTMLElement}
 */
function drawLine(wb, state, line) {
  const number = line.subject
    ? h("button", {
      class: "lineno",
      type: "button",
      title: `Select all values of ${line.subject}`,
      ariaLabel: `Select all values of ${line.subject}`,
      ariaPressed: String(line.subject === wb.selected),
      data: { focus: `source ${line.number}` },
      onclick: () => wb.send({ verb: "select", path: line.subject }),
    }, `${line.number}`)
    : h("span", { class: "lineno" }, `${line.number}`);
  return h("div", { class: line.number === state.number ? "codeline here" : "codeline" }, number, h("code", {}, line.text || " "));
}
