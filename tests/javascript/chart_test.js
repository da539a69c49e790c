// @ts-check
// What of a timeline is drawn at a zoom, and how ranges move: arithmetic of the charts.

import "./page.js";
import { deepEqual, equal } from "./assert.js";
import { movedRange, nextSpan } from "../../workbench/widgets/static/chart_keys.js";
import { scaledState } from "../../workbench/widgets/static/chart_scale.js";
import { placeAfter, sameSpan, unpackSpans, visibleBlocks, visibleNames } from "../../workbench/widgets/static/chart_spans.js";
import { blockOf, inkOn } from "../../workbench/widgets/static/chart_timeline.js";
import { titleOf } from "../../workbench/widgets/static/chart_titles.js";
/** @import { SentSpans, ShownChart, Spans } from "../../workbench/widgets/static/types/chart.d.ts" */

/** @param {ArrayBufferView<ArrayBuffer>} values */
const packed = (values) => btoa(String.fromCharCode(...new Uint8Array(values.buffer)));

/** @param {SentSpans[]} parts */
const unpacked = (...parts) => /** @type {Spans} */ (unpackSpans(parts));

/**
 * Two lanes in milliseconds: a wide span, a hundred narrow ones, and one that stands alone.
 * @returns {Spans}
 */
function spans() {
  const starts = [0, ...Array.from({ length: 100 }, (_, i) => 0.01 + i * 1e-5), 0.005];
  const seconds = [0.004, ...new Array(100).fill(8e-6), 0.002];
  return unpacked({
    lanes: ["compute", "data"].map((name, i) => ({
      name,
      colour: "#3B5A8C",
      bottom: i + 1,
      top: i,
      tier: "",
      other: "",
      own: 0,
      weight: 1,
    })),
    styles: [["mlp/dot_general", "dot · mlp/dot_general · gpt.py:181", "mlp/dot_general", 1, "", ""], ["add", "add", "add", 0.5, "", ""]],
    firsts: [0, 101, 102],
    starts: packed(new Float64Array(starts)),
    seconds: packed(new Float32Array(seconds)),
    kinds: packed(new Uint32Array([0, ...new Array(100).fill(1), 0])),
    unit: 0.001,
    numbers: null,
    shares: null,
    hatched: "",
  });
}

/**
 * Two stages of a pipeline: two forward tasks and a backward one that recomputes for a quarter of its time, predicted and twice as long measured.
 * @returns {SentSpans}
 */
function tasks() {
  const tiers = ["predicted", "measured"];
  const lanes = [0, 1].flatMap((stage) =>
    tiers.map((tier, i) => ({
      name: `stage ${stage}`,
      colour: "#8B949E",
      bottom: stage * 30 + i * 20 + 10,
      top: stage * 30 + i * 20,
      tier,
      other: tiers[1 - i],
      own: i ? 0.002 : 0,
      weight: 1,
    }))
  );
  const starts = [0, 0.001, 0.002];
  return {
    lanes,
    styles: [
      ["{number}", "forward of micro-batch {number}", "", 1, "#3B5A8C", ""],
      ["{number}", "backward of micro-batch {number}", "", 1, "#B8901C", ""],
      ["{number}'", "forward of micro-batch {number}, chunk 1", "", 1, "#3B5A8C", ""],
    ],
    firsts: [0, 3, 6, 9, 12],
    starts: packed(new Float64Array([...starts, ...starts.map((each) => 2 * each), ...starts, ...starts.map((each) => 2 * each)])),
    seconds: packed(new Float32Array([0.001, 0.001, 0.004, 0.002, 0.002, 0.008, 0.001, 0.001, 0.004, 0.002, 0.002, 0.008])),
    kinds: packed(new Uint32Array([0, 0, 1, 0, 0, 1, 2, 2, 1, 2, 2, 1])),
    unit: 0.001,
    numbers: packed(new Int32Array([0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0])),
    shares: packed(new Float32Array([0, 0, 0.25, 0, 0, 0, 0, 0, 0.25, 0, 0, 0])),
    hatched: "computed again",
  };
}

const WHOLE = { from: 0, to: 12, width: 1200 };

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

Deno.test("a numbered span has its number in the middle of what is not hatched, or none", () => {
  const all = unpacked(tasks()), blocks = visibleBlocks(all, WHOLE);
  const names = visibleNames(all, blocks, WHOLE);
  deepEqual(names.slice(0, 3).map(({ x, text }) => [Math.round(1000 * x) / 1000, text]), [[0.5, "0"], [1.5, "1"], [4.5, "0"]]);
  deepEqual(names.slice(6, 8).map(({ text }) => text), ["0'", "1'"]);
  deepEqual(visibleNames(all, visibleBlocks(all, { ...WHOLE, width: 60 }), { ...WHOLE, width: 60 }).map(({ text }) => text), [
    "0",
    "0",
    "0",
    "0",
  ]);
});

Deno.test("a task tells how long it was predicted to take, how long it took, and what of it is done again", () => {
  const all = unpacked(tasks()), blocks = visibleBlocks(all, WHOLE);
  equal(
    titleOf(all, blocks, 2),
    "stage 0 · 4.00 ms: backward of micro-batch 0\npredicted from 2.00 ms, 1.00 ms of it computed again\n" +
      "measured 8.00 ms from 4.00 ms: measured is 2.00× of the prediction",
  );
  equal(
    titleOf(all, blocks, 10),
    "stage 1 · 2.00 ms: forward of micro-batch 1, chunk 1\nmeasured from 2.00 ms\n" +
      "predicted 1.00 ms from 1.00 ms: measured is 2.00× of the prediction",
  );
});

Deno.test("on a scale of its own what was measured is as long as what was predicted", () => {
  const own = { ...unpacked(tasks()), own: true }, blocks = visibleBlocks(own, WHOLE);
  deepEqual(blocks.right.slice(3, 6).map(Math.round), blocks.right.slice(0, 3).map(Math.round));
  const properties = { "x axis": { axis_label: "ms" } };
  const sent = {
    spans: [tasks()],
    ranges: { x: [0, 12], y: [60, 0] },
    across: "pipeline ms",
    properties,
    rescales: true,
    sources: { idle: { right: [6], own: [3] } },
  };
  /** @param {boolean | null} chosen */
  const shown = (chosen) => scaledState(/** @type {ShownChart} */ (/** @type {unknown} */ ({ sent, own: chosen })));
  deepEqual([shown(null).ranges.x, shown(true).ranges.x, shown(false).ranges.x], [[0, 12], [0, 6], [0, 12]]);
  equal(shown(true).properties["x axis"].axis_label, "ms, as predicted");
  deepEqual([shown(true).sources.idle.right, shown(false).sources.idle.right], [[3], [6]]);
  for (const lane of sent.spans[0].lanes) lane.own *= 3; // more than four times as long
  deepEqual(shown(null).ranges.x, [0, 2]);
  sent.rescales = false; // by itself it stays on one scale
  deepEqual(shown(null).ranges.x, [0, 12]);
});

Deno.test("keys go along a lane, stop at its ends, and go to what begins nearest in the next lane, round the ends", () => {
  const all = unpacked(tasks()), blocks = visibleBlocks(all, WHOLE);
  equal(nextSpan(all, blocks, -1, 1, 0), 0);
  deepEqual([[0, 1], [1, 1], [2, 1], [2, -1], [0, -1]].map(([at, by]) => nextSpan(all, blocks, at, by, 0)), [1, 2, 2, 1, 0]);
  deepEqual([[2, 1], [4, 1], [10, 1], [1, -1]].map(([at, down]) => nextSpan(all, blocks, at, 0, down)), [4, 8, 2, 9]);
});

Deno.test("keys go on where what is drawn ends, and over blocks of many spans at once", () => {
  const all = spans(),
    near = visibleBlocks(all, { from: 10, to: 10.1, width: 1000 }),
    far = visibleBlocks(all, { from: 0, to: 20, width: 1000 });
  const last = near.span.length - 1;
  equal(nextSpan(all, near, near.span[last], 1, 0), near.span[last] + 1);
  equal(nextSpan(all, near, near.span[0], -1, 0), 0);
  equal(nextSpan(all, far, 0, 1, 0), far.span[1]);
  deepEqual([blockOf(all, far, 0), blockOf(all, far, 100)], [0, far.lane.lastIndexOf(0)]);
});

Deno.test("a task is found again by its words, whatever came before it, and what is gone is not", () => {
  const before = unpacked(tasks()), more = tasks(), gone = tasks();
  more.firsts = [0, 0, 0, 3, 6];
  more.starts = packed(new Float64Array([0, 0.001, 0.002, 0, 0.002, 0.004]));
  more.seconds = packed(new Float32Array(6));
  more.kinds = packed(new Uint32Array([0, 0, 1, 2, 2, 1]));
  more.numbers = packed(new Int32Array([0, 1, 0, 0, 1, 0]));
  more.shares = packed(new Float32Array(6));
  equal(sameSpan(before, 11, unpacked(more)), 5); // backward of micro-batch 0, as measured in stage 1
  equal(sameSpan(before, 2, unpacked(more)), -1);
  gone.lanes = gone.lanes.map((lane) => ({ ...lane, name: "elsewhere" }));
  equal(sameSpan(before, 0, unpacked(gone)), -1);
});

Deno.test("what was lost with its device is compared with nothing", () => {
  const lost = tasks();
  lost.shares = packed(new Float32Array([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]));
  lost.hatched = "lost";
  const all = unpacked(lost), blocks = visibleBlocks(all, WHOLE);
  equal(titleOf(all, blocks, 0), "stage 0 · 1.00 ms: forward of micro-batch 0\npredicted from 0.00 µs");
  equal(titleOf(all, blocks, 3), "stage 0 · 2.00 ms: forward of micro-batch 0\nmeasured from 0.00 µs, 2.00 ms of it lost");
});

Deno.test("spans that come in parts are one, with the styles of the first", () => {
  const first = tasks(),
    part = { ...tasks(), styles: [] },
    none = { ...part, firsts: [0, 0, 0, 0, 0], starts: "", seconds: "", kinds: "", numbers: null, shares: null };
  const all = unpacked(first, none, part), alone = unpacked(first);
  equal(unpackSpans([]), null);
  deepEqual(all.firsts, [0, 3, 6, 9, 12, 12, 12, 12, 12, 15, 18, 21, 24]);
  deepEqual([...all.starts], [...alone.starts, ...alone.starts]);
  deepEqual([...(all.numbers ?? [])], [...(alone.numbers ?? []), ...(alone.numbers ?? [])]);
  deepEqual(all.styles, first.styles);
  equal(all.lanes.length, 12);
});
