// @ts-check
// Pipeline controls: numbers, selects, menus and sliders. `value`s are sent unchanged.

import { h } from "./dom.js";
import { openMenu } from "./menus.js";
import { termLabel } from "./terms.js";
/** @import { Control } from "./types/pipeline.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

export const PIPELINE_ZONE = "#pipeline"; // matches stage_edits.py

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
  const elements = { number: stageNumber, select: stageSelect, menu: stageMenu, slider: stageSlider, choice: stageChoice }[control.kind](
    wb,
    control,
    id,
  );
  return h(
    "div",
    { class: `control by-${control.kind}`, data: { control: control.key } },
    h("label", { class: "label", id: `${id}-label`, htmlFor: id }, termLabel(wb, control.label)),
    ...elements,
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
    ...control.options.map((option) =>
      h("option", { value: option.value, selected: option.value === control.value, title: option.note }, option.label)
    ),
  );
  return [select];
}

/**
 * A menu rather than a select, because each schedule has a description.
 * @param {Wb} wb
 * @param {Control} control
 * @param {string} id
 * @returns {HTMLElement[]}
 */
function stageMenu(wb, control, id) {
  const now = control.options.find((option) => option.value === control.value);
  const items = control.options.map((option) => ({
    label: option.label,
    note: option.note,
    gesture: { verb: "pipeline", change: control.key, value: option.value, zone: PIPELINE_ZONE },
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
 * The slider offers only divisors of the batch size.
 * @param {Wb} wb
 * @param {Control} control
 * @param {string} id
 * @returns {HTMLElement[]}
 */
function stageSlider(wb, control, id) {
  const values = control.options.map((option) => option.value), at = values.indexOf(control.value);
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
  /** @param {Control["options"][number]} option */
  const radio = (option) =>
    h(
      "label",
      { title: option.note },
      h("input", {
        type: "radio",
        name: id,
        value: option.value,
        checked: option.value === control.value,
        data: { focus: `${id}-${option.value}` },
        onchange: () => sendStage(wb, control.key, option.value),
      }),
      h("span", {}, option.label),
    );
  const group = h("span", { class: "segments", role: "radiogroup" }, ...control.options.map(radio));
  group.setAttribute("aria-labelledby", `${id}-label`);
  return [group];
}
