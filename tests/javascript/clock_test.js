// @ts-check
// Times in words, and the point of a curve nearest to a place.

import "./page.js";
import { deepEqual } from "./assert.js";
import { clock } from "../../workbench/widgets/static/chart_titles.js";
import { nearest } from "../../workbench/widgets/static/curves.js";

Deno.test("times have three digits, in the unit that suits them", () => {
  deepEqual([2, 0.0123, 0.00045, 4e-8].map(clock), ["2.00 s", "12.3 ms", "450 µs", "0.04 µs"]);
});

Deno.test("a curve is read at the point nearest to the pointer", () => {
  const points = /** @type {[number, number][]} */ ([[0, 5], [10, 4], [20, 3]]);
  deepEqual([-9, 4, 6, 99].map((x) => nearest(points, x)), [0, 0, 1, 2]);
});
