// @ts-check
// What of a timeline is drawn at a zoom, and how ranges move: arithmetic of the charts.

import "./page.js";
import { deepEqual, equal } from "./assert.js";
import { placeAfter, unpackSpans, visibleBlocks, visibleNames } from "../../workbench/widgets/static/chart_spans.js";
import { inkOn, titleOf } from "../../workbench/widgets/static/chart_timeline.js";
import { movedRange } from "../../workbench/widgets/static/chart_zoom.js";
/** @import { Spans } from "../../workbench/widgets/static/types/chart.d.ts" */

/** @param {ArrayBufferView<ArrayBuffer>} values */
const packed = (values) => btoa(String.fromCharCode(...new Uint8Array(values.buffer)));

/**
 * Two lanes in milliseconds: a wide span, a hundred narrow ones, and one that stands alone.
 * @returns {Spans}
 */
function spans() {
  const starts = [0, ...Array.from({ length: 100 }, (_, i) => 0.01 + i * 1e-5), 0.005];
  const seconds = [0.004, ...new Array(100).fill(8e-6), 0.002];
  return unpackSpans({
    lanes: ["compute", "data"].map((name, i) => ({ name, colour: "#3B5A8C", bottom: i + 1, top: i })),
    styles: [["mlp/dot_general", "dot · mlp/dot_general · gpt.py:181", "mlp/dot_general", 1], ["add", "add", "add", 0.5]],
    firsts: [0, 101, 102],
    starts: packed(new Float64Array(starts)),
    seconds: packed(new Float32Array(seconds)),
    kinds: packed(new Uint32Array([0, ...new Array(100).fill(1), 0])),
    unit: 0.001,
  });
}

Deno.test("narrow spans are gathered, a few pixels at most, and none is lost", () => {
  const found = visibleBlocks(spans(), { from: 0, to: 20, width: 1000 });
  equal(found.count.reduce((sum, count) => sum + count, 0), 102);
  equal(found.left.length < 40, true);
  deepEqual([found.left[0], Math.round(found.right[0]), found.count[0]], [0, 4, 1]);
  const wide = Math.max(...found.left.slice(1, -1).map((left, i) => found.right[i + 1] - left));
  equal(wide <= 6 * 20 / 1000, true);
});

Deno.test("the closer it is looked at, the more spans stand alone, up to each of them", () => {
  const found = visibleBlocks(spans(), { from: 10, to: 11, width: 1000 });
  equal(found.left.length, 100);
  deepEqual(new Set(found.count), new Set([1]));
});

Deno.test("a span that began before what is seen is drawn, one that ended is not", () => {
  deepEqual(visibleBlocks(spans(), { from: 3, to: 4.5, width: 100 }).span, [0]);
  deepEqual(visibleBlocks(spans(), { from: 7.5, to: 9, width: 100 }).span, []);
});

Deno.test("a name is written where it has room, cut to it, and stays in sight", () => {
  const all = spans(), seen = { from: 2, to: 6, width: 200 };
  const [first, ...others] = visibleNames(all, visibleBlocks(all, seen), seen);
  deepEqual([first.x, first.text], [2, "mlp/dot_gene…"]);
  deepEqual(others.map(({ text }) => text), ["mlp/d…"]);
  deepEqual(visibleNames(all, visibleBlocks(all, seen), { ...seen, width: 10 }), []);
});

Deno.test("a block says what it is, how many, how long and from when", () => {
  const all = spans(), blocks = visibleBlocks(all, { from: 0, to: 20, width: 1000 });
  equal(titleOf(all, blocks, 0), "compute · 4.00 ms: dot · mlp/dot_general · gpt.py:181\nfrom 0.00 µs");
  equal(titleOf(all, blocks, 1).startsWith(`compute · ${blocks.count[1]} in `), true);
});

Deno.test("a text stands out from its block in both themes", () => {
  deepEqual([inkOn("#3B5A8C", 1, false), inkOn("#3B5A8C", 0.35, false), inkOn("#3B5A8C", 0.35, true)], ["#FFFFFF", "#1B1F24", "#FFFFFF"]);
});

Deno.test("a range is zoomed about its middle and never leaves the whole, on a logarithmic axis too", () => {
  deepEqual(movedRange([0, 10], [0, 10], { factor: 0.5 }), [2.5, 7.5]);
  deepEqual(movedRange([8, 10], [0, 10], { by: 0.5 }), [8, 10]);
  deepEqual(movedRange([2, 4], [0, 10], { factor: 100 }), [0, 10]);
  deepEqual(movedRange([1, 100], [1, 100], { factor: 0.5, log: true }).map((each) => Math.round(each * 100) / 100), [3.16, 31.62]);
});

Deno.test("a place in sorted times", () => {
  const times = new Float64Array([0, 1, 1, 2]);
  deepEqual([-1, 0, 1, 2].map((time) => placeAfter(times, time, 0, 4)), [0, 1, 3, 4]);
});
