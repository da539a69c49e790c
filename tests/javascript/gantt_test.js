// @ts-check
// Charts over time: the part that is seen, the task beside another, and times in words. And the point of a curve nearest to a place.

import "./page.js";
import { deepEqual, equal } from "./assert.js";
import { nearest } from "../../workbench/widgets/static/curves.js";
import { follow, panned, taskBeside, taskOf, zoomed } from "../../workbench/widgets/static/gantt_viewport.js";
import { clock } from "../../workbench/widgets/static/clock.js";
/** @import { AnyTask } from "../../workbench/widgets/static/types/pipeline.d.ts" */

Deno.test("zooming keeps the place under the pointer, and never leaves the whole", () => {
  deepEqual(zoomed([0, 1], 0.5), [0.25, 0.75]);
  deepEqual(zoomed([0, 1], 0.5, 0), [0, 0.5]);
  deepEqual(zoomed([0.5, 1], 2, 1), [0, 1]);
  deepEqual(zoomed([0.25, 0.75], 100), [0, 1]);
  const [from, to] = zoomed([0.5, 0.5001], 1e-6);
  equal(Math.abs(to - from - 1e-4) < 1e-12, true);
});

Deno.test("panning moves by a share of what is seen, as far as there is something", () => {
  deepEqual(panned([0.25, 0.5], 1), [0.5, 0.75]);
  deepEqual(panned([0.25, 0.5], -4), [0, 0.25]);
  deepEqual(panned([0.25, 0.5], 9), [0.75, 1]);
});

/**
 * @param {number} device
 * @param {number} start
 * @param {number} end
 * @returns {AnyTask}
 */
const task = (device, start, end) => [device, start, end, 0, device, 0, 0];

Deno.test("a chosen task comes into sight, in the middle, unless all of it is", () => {
  const seen = /** @type {[number, number]} */ ([0.25, 0.5]);
  equal(follow(seen, task(0, 3, 4), 10), seen);
  deepEqual(follow(seen, task(0, 7, 8), 10), [0.625, 0.875]);
  deepEqual(follow(seen, task(0, 2, 3), 10), [0.125, 0.375]);
});

const TASKS = [task(0, 0, 1), task(0, 1, 2), task(0, 4, 5), task(1, 1, 2), task(1, 3, 4)];
const CHART = { devices: 2, tasks: TASKS, measured: [task(0, 0, 2)] };

Deno.test("left and right walk along a device and stop at its ends", () => {
  equal(taskBeside(CHART, TASKS[0], 1, 0), TASKS[1]);
  equal(taskBeside(CHART, TASKS[0], -1, 0), TASKS[0]);
  equal(taskBeside(CHART, TASKS[2], 1, 0), TASKS[2]);
});

Deno.test("up and down go to the task of the next device that begins nearest, round the ends", () => {
  equal(taskBeside(CHART, TASKS[2], 0, 1), TASKS[4]);
  equal(taskBeside(CHART, TASKS[3], 0, 1), TASKS[1]);
  equal(taskBeside(CHART, TASKS[4], 0, -1), TASKS[2]);
});

Deno.test("with none chosen a key takes the first; of none there is none", () => {
  equal(taskBeside(CHART, null, 1, 0), TASKS[0]);
  equal(taskBeside({ ...CHART, tasks: [] }, null, 1, 0), null);
});

Deno.test("a mark of the drawing names its task", () => {
  equal(taskOf(CHART, "tasks 3"), TASKS[3]);
  equal(taskOf(CHART, "measured 0"), CHART.measured[0]);
  equal(taskOf(CHART, "measured 7"), null);
  equal(taskOf(CHART, ""), null);
});

Deno.test("times have three digits, in the unit that suits them", () => {
  deepEqual([2, 0.0123, 0.00045, 4e-8].map(clock), ["2.00 s", "12.3 ms", "450 µs", "0.04 µs"]);
});

Deno.test("a curve is read at the point nearest to the pointer", () => {
  const points = /** @type {[number, number][]} */ ([[0, 5], [10, 4], [20, 3]]);
  deepEqual([-9, 4, 6, 99].map((x) => nearest(points, x)), [0, 0, 1, 2]);
});
