// @ts-check
// What a pipelined step says in words: its tasks, its key, and how long a time is.

import { h, svg } from "./dom.js";
/** @import { GanttState, Task } from "./types/pipeline.d.ts" */

/**
 * @param {GanttState} state
 * @returns {HTMLElement[]}
 */
export function drawKey(state) {
  /**
   * @param {string} fill
   * @param {string} name
   * @param {string} [more]
   */
  const swatch = (fill, name, more = "") => h("span", {}, svgSwatch(fill, more), name);
  const shown = state.kinds.filter((kind) => kind.shown).map((kind) => swatch(kind.fill, kind.name));
  if (state.recomputes) shown.push(swatch("url(#again)", "computed again", state.kinds[1].fill));
  shown.push(swatch("url(#idle)", "bubble"));
  return state.lasted ? [...shown, h("span", {}, "thin: measured")] : shown;
}

/**
 * @param {string} fill
 * @param {string} [ground]
 * @returns {SVGElement}
 */
export function svgSwatch(fill, ground) {
  /** @param {string} colour */
  const box = (colour) => svg("rect", { width: 10, height: 10, rx: 2, fill: colour });
  return svg("svg", { width: 10, height: 10, "aria-hidden": "true" }, ...(ground ? [box(ground)] : []), box(fill));
}

/**
 * As `format_seconds` of Python writes them.
 * @param {number} seconds
 * @returns {string}
 */
export function clock(seconds) {
  for (const [unit, scale] of /** @type {[string, number][]} */ ([["s", 1], ["ms", 1e3], ["µs", 1e6]])) {
    const value = seconds * scale;
    if (value >= 1 || unit === "µs") return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
  }
  return "";
}

/**
 * @param {GanttState} state
 * @param {Task} task
 * @returns {string}
 */
export function tellTask(state, task) {
  const [device, start, end, kind, stage, micro] = task;
  /**
   * @param {Task} each
   * @returns {boolean}
   */
  const same = (each) => each[3] === kind && each[4] === stage && each[5] === micro;
  const real = state.measured.includes(task),
    other = (real ? state.tasks : state.measured).find((each) => (kind === 4 ? each[0] === device && each[3] === 4 : same(each)));
  const turn = Math.floor(stage / state.devices);
  const name = `${state.kinds[kind].name}${micro < 0 ? "" : ` of micro-batch ${micro}`} · stage ${device}${
    state.chunks > 1 && micro >= 0 ? ` chunk ${turn}` : ""
  }`;
  /**
   * @param {Task} each
   * @param {string} label
   * @returns {string}
   */
  const words = (each, label) => `${label} ${clock(each[1])} to ${clock(each[2])}, ${clock(each[2] - each[1])}`;
  const again = !real && task[6] ? `, ${clock((end - start) * task[6])} of it computed again` : "";
  const ratio = other && other[2] > other[1]
    ? ` · measured is ${(real ? (end - start) / (other[2] - other[1]) : (other[2] - other[1]) / (end - start)).toFixed(2)}× of it`
    : "";
  return `${name} · ${words(task, real ? "measured" : "predicted")}${again}${
    other ? ` · ${words(other, real ? "predicted" : "measured")}` : ""
  }${ratio}`;
}
