// @ts-check
// The hardware picker: chip, topology, a description, and the links of each mesh axis.

import { h, withCode } from "./dom.js";
import { openMenu } from "./menus.js";
import { drawRefusal } from "./popup.js";
/** @import { Hardware, Refusal } from "./types/states.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {Hardware} state
 * @param {Refusal | null} refusal
 * @returns {HTMLElement}
 */
export function drawHardware(wb, state, refusal) {
  const chip = h("select", {
    class: "field chipname",
    ariaLabel: "kind of device",
    data: { focus: "hw-chip" },
    onchange: () => wb.send({ verb: "hardware", chip: chip.value, shape: "" }),
  }, ...state.chips.map((chip) => h("option", { value: chip.name, selected: chip.name === state.chip }, chip.label)));
  const shape = h("input", {
    class: "field shape",
    value: state.shape,
    placeholder: state.example,
    maxLength: 200,
    spellcheck: false,
    autocomplete: "off",
    ariaLabel: "shape or number of devices",
    ariaInvalid: refusal ? "true" : null,
    data: { focus: "hw-shape" },
    onchange: () => wb.send({ verb: "hardware", chip: chip.value, shape: shape.value }),
    onkeydown: (event) => {
      if (event.key === "Escape") {
        shape.value = state.shape;
        shape.blur();
      }
      if (event.key === "ArrowDown") {
        event.preventDefault();
        openMenu(wb, more, state.shapes);
      }
    },
  });
  const more = h("button", {
    class: "btn icon",
    type: "button",
    disabled: !state.shapes.length,
    ariaLabel: "Shapes that match the mesh",
    title: "Shapes that match the mesh",
    ariaHasPopup: "menu",
    data: { focus: "hw-shapes" },
    onclick: () => openMenu(wb, more, state.shapes),
  }, "▾");
  const picker = h("div", { class: "picker" }, chip, shape, more, refusal ? drawRefusal(wb, refusal) : null);
  const about = state.problem
    ? h(
      "div",
      { class: "about" },
      h("span", { class: "bad", role: "alert" }, h("b", {}, "Does not fit. "), ...withCode(state.problem)),
      " ",
      ...state.mends.map((mend) => h("button", { class: "btn small", type: "button", onclick: () => wb.send(mend.gesture) }, mend.label)),
    )
    : h("div", { class: "about", title: state.title }, ...drawFacts(wb, state), drawAxisLinks(wb, state));
  return h("div", { class: "hardware", role: "group", ariaLabel: "Hardware" }, picker, about);
}

/**
 * @param {Wb} wb
 * @param {Hardware} state
 * @returns {HTMLElement[]}
 */
function drawFacts(wb, { facts, attached }) {
  if (!attached) return [h("span", { class: "muted" }, facts)];
  const text = h("span", { class: "muted", role: attached.busy ? "status" : null }, ...withCode(attached.text));
  const onclick = () => wb.send({ verb: attached.busy ? "cancel_calibration" : "calibrate" });
  const title = "Measure this machine once (a few seconds, in a separate process); step times are then predicted for it.";
  const props = { class: "btn small", type: "button", title: attached.busy ? null : title, data: { focus: "hw-attached" }, onclick };
  return attached.button ? [text, h("button", props, attached.button)] : [text];
}

/**
 * @param {Wb} wb
 * @param {Hardware} state
 * @returns {HTMLElement | null}
 */
function drawAxisLinks(wb, state) {
  if (!state.wirings.length) return null;
  const change = h("button", {
    class: "btn small",
    type: "button",
    ariaHasPopup: "menu",
    ariaLabel: "Change the axes on links",
    data: { focus: "hw-wiring" },
    onclick: () => openMenu(wb, change, state.wirings),
  }, "Reassign…");
  const lines = state.wiring.map((line) =>
    h("span", { class: "wire", title: line.title }, h("span", { class: "tag", data: { c: line.colour } }, line.axis), `→ ${line.text}`)
  );
  return h("span", { class: "wiring" }, ...lines, change);
}
