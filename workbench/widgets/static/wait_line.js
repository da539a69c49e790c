// @ts-check
// A progress line: phase, elapsed seconds counted in the browser, and Cancel.

import { h } from "./dom.js";
/** @import { Waiting } from "./types/start.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {string} verb  the gesture that Cancel sends
 */
export function waitLine(wb, verb) {
  const bar = h("div", { class: "progress unknown" }, h("i")), phase = h("span", { role: "status" });
  const seconds = h("span", { class: "seconds", ariaHidden: "true" });
  const cancel = h("button", { class: "btn small", type: "button", data: { focus: verb }, onclick: () => wb.send({ verb }) }, "Cancel");
  const element = h("div", { class: "wait", hidden: true }, bar, phase, seconds, cancel);
  let begun = 0, timer = 0;
  const count = () => {
    const passed = Math.floor((performance.now() - begun) / 1000);
    seconds.textContent = passed ? `${passed} s` : "";
    if (!element.isConnected) clearInterval(timer);
  };
  /** @param {Waiting | null} state */
  const paint = (state) => {
    element.hidden = !state;
    clearInterval(timer);
    if (!state) return;
    if (phase.textContent !== state.phase) phase.textContent = state.phase;
    begun = performance.now() - 1000 * state.seconds;
    count();
    timer = setInterval(count, 250);
  };
  return { element, paint };
}
