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
  const counter = countSeconds(element, (passed) => seconds.textContent = passed ? `${passed} s` : "");
  /** @param {Waiting | null} state */
  const paint = (state) => {
    element.hidden = !state;
    if (!state) return counter.stop();
    if (phase.textContent !== state.phase) phase.textContent = state.phase;
    counter.start(state.seconds);
  };
  return { element, paint };
}

/**
 * Counts seconds in the browser on from those that Python sent: Python is silent while it works.
 * @param {HTMLElement} element  counting ends when it leaves the page
 * @param {(passed: number) => void} show
 */
export function countSeconds(element, show) {
  let begun = 0, timer = 0;
  const count = () => {
    show(Math.floor((performance.now() - begun) / 1000));
    if (!element.isConnected) clearInterval(timer);
  };
  /** @param {number} seconds */
  const start = (seconds) => {
    clearInterval(timer);
    begun = performance.now() - 1000 * seconds;
    count();
    timer = setInterval(count, 250);
  };
  return { start, stop: () => clearInterval(timer) };
}
