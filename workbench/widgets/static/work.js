// @ts-check
// Parts shared by panels of long-running work: progress, worker output and announcements.

import { h, painter, patch } from "./dom.js";
import { drawMark } from "./figures.js";
/** @import { Fact, LogLine, PlanWork, Work } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/**
 * A progress bar with a status line, shown while work runs.
 * @param {string} label
 */
export function progressOf(label) {
  const level = h("i");
  const bar = h("div", { class: "progress", role: "progressbar", ariaLabel: label, ariaValueMin: "0", ariaValueMax: "100" }, level);
  const stage = h("div", { class: "stage" });
  /** @param {Pick<Work, "phase" | "stage" | "fraction"> & { waits?: boolean }} state */
  const paint = (state) => {
    stage.hidden = state.phase !== "running";
    bar.hidden = Boolean(stage.hidden || state.waits);
    const known = state.fraction > 0 && !state.stage.startsWith("compiling"); // compilers report no progress
    bar.classList.toggle("unknown", !known);
    level.style.width = known ? `${state.fraction * 100}%` : "";
    bar.ariaValueNow = known ? String(Math.round(state.fraction * 100)) : null;
    stage.textContent = state.stage;
  };
  return { bar, stage, paint };
}

export function factsOf() {
  const facts = h("dl", { class: "facts" });
  /** @type {Paint<Fact[]>} */
  const paint = painter((state) => {
    facts.hidden = !state.length;
    facts.replaceChildren(
      ...state.flatMap((fact) => [
        h("dt", {}, fact.label),
        h("dd", {}, h("b", { class: fact.tone }, fact.text), drawMark(fact.mark), " ", h("span", {}, fact.note)),
      ]),
    );
  });
  return { facts, paint };
}

/**
 * The worker's output. While open, it follows the last line unless the user has scrolled up.
 * @param {string} label
 */
export function logOf(label) {
  const count = h("span", { class: "badge" });
  const lines = h("ol", { tabIndex: 0, ariaLabel: `Messages of the ${label}` });
  const element = h("details", { class: "log" }, h("summary", {}, "Worker's messages ", count), lines);
  /** @type {Paint<LogLine[]>} */
  const paint = painter((state) => {
    element.hidden = !state.length;
    count.textContent = String(state.length);
    const follows = element.open && lines.scrollHeight - lines.scrollTop - lines.clientHeight < 8;
    patch(lines, state, (line) => h("li", { class: line.tone }, h("span", { class: "at" }, line.at), h("span", {}, line.text)));
    if (follows) lines.scrollTop = lines.scrollHeight;
  });
  return { element, paint };
}

/**
 * @param {HTMLElement} message
 * @param {HTMLElement} of
 * @param {PlanWork} state
 */
export function paintWords(message, of, state) {
  message.textContent = state.message;
  message.className = `message ${state.phase === "error" && !state.stale ? "bad" : "muted"}`;
  message.hidden = !state.message;
  of.textContent = state.of;
  of.hidden = !state.of;
}

/**
 * Announces each stage and each outcome once, except those present when the page loads.
 * @param {Wb} wb
 * @returns {(words: string) => void}
 */
export function speaker(wb) {
  /** @type {string | null} */
  let announced = null;
  return (words) => {
    if (words && announced !== null && words !== announced) wb.say(words);
    announced = words;
  };
}
