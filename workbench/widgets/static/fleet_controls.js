// @ts-check
// Controls of the fleet board: policy, memory, devices and hardware.

import { h } from "./dom.js";
import { openMenu } from "./menus.js";
import { termLabel } from "./terms.js";
/** @import { FleetControls } from "./types/fleet.d.ts" */
/** @import { Gesture, Kid, Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {HTMLElement} parent
 * @param {FleetControls & { locked: boolean }} state
 */
export function drawFleetControls(wb, parent, state) {
  /**
   * @param {string} key
   * @param {string} label
   * @param {...Kid} kids
   */
  const control = (key, label, ...kids) =>
    h(
      "div",
      { class: `control by-${key}`, data: { control: key } },
      h("span", { class: "label", id: `fleet-${key}-${wb.view}` }, termLabel(wb, label)),
      ...kids,
    );
  const now = state.policies.find((policy) => policy.name === state.policy);
  const items = state.policies.map((policy) => ({
    label: policy.name,
    note: policy.text ? `${policy.about}: ${policy.text}` : policy.about,
    gesture: { verb: "policy", value: policy.name },
  }));
  const policy = h(
    "button",
    {
      class: "field open",
      type: "button",
      disabled: state.locked,
      ariaHasPopup: "menu",
      ariaLabel: `Policy: ${state.policy}`,
      data: { focus: "policy" },
      onclick: () => {
        openMenu(wb, policy, items);
        wb.menu?.element.classList.add("sentences");
      },
    },
    state.policy,
    h("span", { ariaHidden: "true" }, "▾"),
  );
  /**
   * @param {string} verb
   * @param {string} value
   * @param {string} name
   * @param {object} more
   */
  const field = (verb, value, name, more) => {
    const input = h("input", {
      class: "field",
      value,
      disabled: state.locked,
      ariaLabel: name,
      ariaInvalid: state.wrong.includes(verb) ? "true" : null,
      spellcheck: false,
      autocomplete: "off",
      data: { focus: verb },
      onchange: () => wb.send({ verb, value: input.value }),
      onkeydown: (event) => {
        if (event.key === "Escape") {
          input.value = value;
          input.blur();
        }
      },
      ...more,
    });
    return input;
  };
  /**
   * @param {string} sign
   * @param {string} name
   * @param {Gesture} gesture
   * @param {boolean} [off]
   */
  const button = (sign, name, gesture, off = false) =>
    h("button", {
      class: "btn icon",
      type: "button",
      disabled: state.locked || off,
      ariaLabel: name,
      title: name,
      data: { focus: `${gesture.verb}${sign}` },
      onclick: () => wb.send(gesture),
    }, sign);
  const memory = h(
    "span",
    { class: "stepper" },
    button("−", "Half the budget", { verb: "budget", value: "less" }),
    field("memory", state.memory, "memory budget per device", { placeholder: "all", maxLength: 40 }),
    button("+", "Twice the budget", { verb: "budget", value: "more" }),
  );
  const count = Number(state.devices);
  const devices = h(
    "span",
    { class: "stepper" },
    button("−", "One device less", { verb: "devices", value: String(count - 1) }, !state.fewer),
    field("devices", state.devices, "devices", { inputMode: "numeric", maxLength: 6 }),
    button("+", "One device more", { verb: "devices", value: String(count + 1) }, !state.more),
  );
  const hardware = field("fleet_hardware", state.hardware, "hardware of the fleet", {
    placeholder: "8 H100",
    maxLength: 200,
  });
  parent.replaceChildren(
    control("policy", "Policy", policy, h("span", { class: "muted says" }, now?.about)),
    control("memory", "Memory of a device", memory, h("span", { class: "muted says" }, state.room)),
    control("devices", "Devices", devices),
    control("hardware", "Hardware", hardware, h("span", { class: "muted says" }, state.planned_for)),
  );
}
