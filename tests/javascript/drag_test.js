// @ts-check
// The chip in hand: where it may go, what a drop of it is, and what the board shows meanwhile.

import "./page.js";
import { deepEqual, equal } from "./assert.js";
import { made, seen } from "./page.js";
import { makeEvents } from "../../workbench/widgets/static/board_context.js";
import { showDropped } from "../../workbench/widgets/static/chips.js";
import {
  aim,
  drop,
  dropOf,
  hold,
  isNowhere,
  pressed,
  previewWords,
  reasonAt,
  release,
  showPreviews,
} from "../../workbench/widgets/static/drag.js";
/** @import { Chip } from "../../workbench/widgets/static/types/states.d.ts" */
/** @import { Gesture, Held, LazyChip, Wb } from "../../workbench/widgets/static/types/board_context.d.ts" */

/** @type {Chip} */
const BATCH = {
  ...{ key: "batch@data", dim: "batch", source: "data", size: "16", order: "", carried: "1", title: "", marks: [], menu: [] },
  illegal: { model: { move: "4 does not divide 30" }, other: { add: "it is there already" } },
};
/** @type {LazyChip} */
const LAZY = {
  ...{ lazy: true, key: "w 0", of: "argument", path: "w", rank: 2, place: 0, source: "data", dim: "hidden", rule: "d_ff", nameless: false },
  illegal: { rule: { model: { move: "by rule" } }, only: { model: { move: "alone" } } },
};

/**
 * @param {Partial<Held>} [more]
 * @returns {Held}
 */
const held = (more = {}) => ({ chip: BATCH, by: "pointer", target: "model", add: false, only: false, ...more });

/** A board of two zones, a chip in the first, and what it sent, asked to preview and said. */
function board() {
  /** @type {Record<"sent" | "previewed", Gesture[]>} */
  const { sent, previewed } = { sent: [], previewed: [] };
  /** @type {string[]} */
  const said = [];
  const chip = made("span", "chip", { chip: BATCH.key }, made("button", "grip"));
  const from = made("div", "zone", { axis: "data" }, made("div", "chips", {}, chip));
  const to = made("div", "zone", { axis: "model" }, made("div", "chips"));
  const section = made("section", "board", {}, from, to), root = made("div", "wb", {}, section);
  const wb = /** @type {Wb} */ (/** @type {unknown} */ ({
    ...makeEvents(),
    ...{ root, board: section, card: root, held: null, only: false, chips: new Map(), optimistic: false, wanted: null },
    ...{ axes: ["", "data", "model"], previews: null },
    send: (/** @type {Gesture} */ gesture) => sent.push(gesture),
    expect: (/** @type {Gesture} */ gesture) => previewed.push(gesture),
    say: (/** @type {string} */ words) => said.push(words),
  }));
  wb.subscribe("dropped", (drop) => showDropped(wb, drop)); // as the board does
  return { wb, sent, previewed, said, chip, from, to };
}

Deno.test("a chip may go where Python has given no reason against it", () => {
  equal(reasonAt(held(), "model"), "4 does not divide 30");
  equal(reasonAt(held({ add: true }), "model"), null);
  equal(reasonAt(held({ add: true }), "other"), "it is there already");
  equal(reasonAt(held(), "data"), null); // it is there
  equal(reasonAt(held(), null), null);
  equal(reasonAt(null, "model"), null);
});

Deno.test("a chip of the tables is barred by the rule's reasons, or alone by its own", () => {
  equal(reasonAt(held({ chip: LAZY }), "model"), "by rule");
  equal(reasonAt(held({ chip: LAZY, only: true }), "model"), "alone");
});

Deno.test("a drop on the axis where a chip is, or outside, is none; one that adds the axis is", () => {
  equal(isNowhere(held({ target: null })), true);
  equal(isNowhere(held({ target: "data" })), true);
  equal(isNowhere(held({ target: "data", add: true })), false);
  equal(isNowhere(held({ target: "" })), false); // unsharded
});

Deno.test("a drop tells Python the dimension, the rule, or one tensor alone", () => {
  deepEqual(dropOf(held({ add: true })), { verb: "drop", dim: "batch", source: "data", target: "model", add: true });
  const byRule = { verb: "drop", dim: "d_ff", source: "data", target: "model", add: false, zone: "tables" };
  deepEqual(dropOf(held({ chip: LAZY })), byRule);
  const place = { of: "argument", path: "w", rank: 2, place: 0, source: "data" };
  const alone = { verb: "own", ...place, target: "model", add: false, zone: "tables" };
  deepEqual(dropOf(held({ chip: LAZY, only: true })), alone);
  deepEqual(dropOf(held({ chip: { ...LAZY, nameless: true } })), alone);
});

Deno.test("shift adds an axis, alt turns what a drop on a row changes", () => {
  const { wb } = board();
  deepEqual(pressed(wb, { shiftKey: true, altKey: false }), { add: true, only: false });
  deepEqual(pressed({ ...wb, only: true }, { shiftKey: false, altKey: true }), { add: false, only: false });
  deepEqual(pressed(wb, { shiftKey: false, altKey: true }), { add: false, only: true });
});

Deno.test("zones are barred while a chip is in hand, the one under it is marked, and both end with it", () => {
  const { wb, from, to, chip } = board();
  hold(wb, BATCH, "keyboard");
  equal(wb.held?.target, "data");
  equal(from.className, "zone over");
  equal(to.className, "zone barred");
  equal(seen(to).text, "4 does not divide 30");
  equal(chip.className, "chip picked");
  equal(seen(wb.board).attributes.role, "application");
  release(wb);
  deepEqual([from.className, to.className, chip.className, seen(to).text], ["zone", "zone", "chip", ""]);
});

Deno.test("a chip of the tables asks where it may go when it is taken; nothing else is sent before a drop", () => {
  const { wb, sent } = board();
  hold(wb, BATCH, "click");
  deepEqual(sent, []);
  hold(wb, LAZY, "pointer");
  deepEqual(sent.map(({ verb, key, menu }) => ({ verb, key, menu })), [{ verb: "take", key: "w 0", menu: false }]);
  release(wb);
});

Deno.test("a dropped chip is shown where it was dropped until Python answers, and can be taken again", () => {
  const { wb, sent, to, from } = board();
  hold(wb, BATCH, "pointer");
  drop(wb, "model", false);
  deepEqual(sent, [{ verb: "drop", dim: "batch", source: "data", target: "model", add: false }]);
  equal(wb.held, null);
  equal(wb.optimistic, true);
  equal(wb.wanted, "batch@model");
  equal(seen(from).querySelector(".chip"), null);
  equal(seen(to).querySelector(".chip")?.className, "chip pending");
  equal(wb.chips.get("batch@model")?.source, "model");
});

Deno.test("a chip that adds an axis stays where it is", () => {
  const { wb, sent, from } = board();
  hold(wb, BATCH, "pointer");
  drop(wb, "model", true);
  equal(sent[0].add, true);
  equal(seen(from).querySelector(".chip")?.className, "chip");
});

Deno.test("a drop outside, or back where it came from, sends nothing and ends the hold", () => {
  for (const axis of [null, "data"]) {
    const { wb, sent } = board();
    hold(wb, BATCH, "pointer");
    drop(wb, axis, false);
    deepEqual([sent, wb.held, wb.optimistic], [[], null, false]);
  }
});

Deno.test("a hand that rests over a zone has legal drops previewed", async () => {
  const rest = () => new Promise((done) => setTimeout(done, 100));
  const { wb, previewed } = board();
  hold(wb, BATCH, "pointer");
  for (const target of ["model", ""]) {
    if (wb.held) wb.held.target = target;
    aim(wb);
    await rest();
  }
  deepEqual(previewed.map(({ target, targets }) => ({ target, targets })), [{ target: "model", targets: [""] }, {
    target: "",
    targets: [""],
  }]);
});

Deno.test("a hand that goes on has nothing worked out", async () => {
  const { wb, previewed } = board();
  hold(wb, BATCH, "pointer");
  if (wb.held) wb.held.target = "";
  aim(wb);
  release(wb);
  await new Promise((done) => setTimeout(done, 100));
  deepEqual(previewed, []);
});

Deno.test("a chip in hand asks once what a drop on each legal zone does, and zones show it until it is let go", async () => {
  const { wb, previewed, from, to } = board();
  const free = { ...BATCH, illegal: {} };
  hold(wb, free, "pointer");
  if (wb.held) wb.held.target = "model";
  aim(wb);
  deepEqual(previewed, []); // a quick drop waits for no preview
  await new Promise((done) => setTimeout(done, 100));
  const [{ key, ...asked }] = previewed;
  deepEqual(asked, { verb: "preview", targets: ["", "model"], target: "model", only: false, dim: "batch", source: "data", add: false });
  const change = { label: "step", text: "−3.00 ms", tone: "good", note: "" };
  wb.previews = { key: String(key), zones: { model: { note: "", tone: "good", changes: [change] } } };
  showPreviews(wb);
  equal(to.className, "zone over leads-good");
  equal(seen(to).text, "step −3.00 ms");
  equal(previewWords(wb, "model"), "step −3.00 ms");
  wb.previews = { key: "of another chip", zones: wb.previews.zones };
  showPreviews(wb);
  equal(seen(to).text, "");
  release(wb);
  deepEqual([from.className, to.className], ["zone", "zone"]);
});
