// @ts-check
// What is chosen of a pipeline: numbers, menus, sliders. `value`s are sent as they came.

import { h } from "./dom.js";
import { openMenu } from "./menus.js";
import { termLabel } from "./terms.js";
/** @import { Control } from "./types/pipeline.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

export const PIPELINE_ZONE = "#pipeline"; // as in stage_edits.py

/**
 * @param {Wb} wb
 * @param {string} change
 * @param {string | number} [value]
 */
export function sendStage(wb, change, value = "") {
  wb.send({ verb: "pipeline", change, value: String(value), zone: PIPELINE_ZONE });
}

/**
 * @param {Wb} wb
 * @param {Control} control
 * @returns {HTMLElement}
 */
export function drawControl(wb, control) {
  const id = `stage-${control.key}-${wb.view}`;
  const made = { number: stageNumber, select: stageSelect, menu: stageMenu, slider: stageSlider, choice: stageChoice }[control.kind](
    wb,
    control,
    id,
  );
  return h(
    "div",
    { class: `control by-${control.kind}`, data: { control: control.key } },
    h("label", { class: "label", id: `${id}-label`, htmlFor: id }, termLabel(wb, control.label)),
    ...made,
  );
}

/**
 * @param {Wb} wb
 * @param {Control} control
 * @param {string} id
 * @returns {HTMLElement[]}
 */
function stageNumber(wb, control, id) {
  const input = h("input", {
    id,
    class: "field",
    value: control.value,
    inputMode: "numeric",
    data: { focus: id },
    onchange: () => sendStage(wb, control.key, input.value),
    onkeydown: (event) => {
      if (event.key === "Escape") {
        input.value = control.value;
        input.blur();
      } else step(event);
    },
  });
  /** @param {number} change */
  const by = (change) => sendStage(wb, control.key, Math.max(1, Number(control.value) + change));
  /** @param {KeyboardEvent} event */
  const step = (event) => {
    const change = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (change) {
      event.preventDefault();
      by(change);
    }
  };
  /**
   * @param {string} sign
   * @param {number} change
   * @param {string} name
   */
  const button = (sign, change, name) =>
    h("button", {
      class: "btn icon",
      type: "button",
      ariaLabel: name,
      disabled: (change < 0 && Number(control.value) <= 1) || (change > 0 && control.most > 0 && Number(control.value) >= control.most),
      data: { focus: `${id}${sign}` },
      onclick: () => by(change),
    }, sign);
  return [
    h(
      "span",
      { class: "stepper" },
      button("−", -1, `fewer ${control.label.toLowerCase()}`),
      input,
      button("+", 1, `more ${control.label.toLowerCase()}`),
    ),
  ];
}

/**
 * @param {Wb} wb
 * @param {Control} control
 * @param {string} id
 * @returns {HTMLElement[]}
 */
function stageSelect(wb, control, id) {
  const select = h(
    "select",
    { id, class: "field", data: { focus: id }, onchange: () => sendStage(wb, control.key, select.value) },
    ...control.options.map((each) =>
      h("option", { value: each.value, selected: each.value === control.value, title: each.note }, each.label)
    ),
  );
  return [select];
}

/**
 * A menu, for each schedule has a sentence of its own.
 * @param {Wb} wb
 * @param {Control} control
 * @param {string} id
 * @returns {HTMLElement[]}
 */
function stageMenu(wb, control, id) {
  const now = control.options.find((each) => each.value === control.value);
  const items = control.options.map((each) => ({
    label: each.label,
    note: each.note,
    gesture: { verb: "pipeline", change: control.key, value: each.value, zone: PIPELINE_ZONE },
  }));
  const button = h(
    "button",
    {
      id,
      class: "field open",
      type: "button",
      ariaHasPopup: "menu",
      data: { focus: id },
      onclick: () => {
        openMenu(wb, button, items);
        wb.menu?.element.classList.add("sentences");
      },
    },
    now?.label,
    h("span", { ariaHidden: "true" }, "▾"),
  );
  button.setAttribute("aria-labelledby", `${id}-label ${id}`);
  return [button, h("span", { class: "muted says" }, now?.note)];
}

/**
 * Only what divides the batch is on the slider.
 * @param {Wb} wb
 * @param {Control} control
 * @param {string} id
 * @returns {HTMLElement[]}
 */
function stageSlider(wb, control, id) {
  const values = control.options.map((each) => each.value), at = values.indexOf(control.value);
  const shown = h("output", { class: "mono" }, control.value);
  const say = () => {
    const value = values[Number(range.value)];
    shown.textContent = value;
    range.setAttribute("aria-valuetext", value);
  };
  const range = h("input", {
    id,
    type: "range",
    min: "0",
    max: String(values.length - 1),
    step: "1",
    data: { focus: id },
    oninput: say,
    onchange: () => sendStage(wb, control.key, values[Number(range.value)]),
  });
  range.value = String(at);
  say();
  return [h("span", { class: "slide" }, range, shown)];
}

/**
 * @param {Wb} wb
 * @param {Control} control
 * @param {string} id
 * @returns {HTMLElement[]}
 */
function stageChoice(wb, control, id) {
  /** @param {Control["options"][number]} each */
  const radio = (each) =>
    h(
      "label",
      { title: each.note },
      h("input", {
        type: "radio",
        name: id,
        value: each.value,
        checked: each.value === control.value,
        data: { focus: `${id}-${each.value}` },
        onchange: () => sendStage(wb, control.key, each.value),
      }),
      h("span", {}, each.label),
    );
  const group = h("span", { class: "segments", role: "radiogroup" }, ...control.options.map(radio));
  group.setAttribute("aria-labelledby", `${id}-label`);
  return [group];
}
