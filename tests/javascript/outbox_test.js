// @ts-check
// Gestures on their way to Python: one at a time, and through a cut of the connection.

import { made } from "./page.js";
import { deepEqual, equal } from "./assert.js";
import { keepThroughCut, keptThroughCut } from "../../workbench/widgets/static/browser_storage.js";
import { outbox } from "../../workbench/widgets/static/outbox.js";
/** @import { AnyModel, Outbox, Sent } from "../../workbench/widgets/static/types/board_context.d.ts" */

/**
 * An outbox, what its model was told, and the root that shows how it is; closed at the end of `act`.
 * @param {(given: { box: Outbox; told: Sent[]; root: HTMLElement }) => void} act
 * @param {{ seq: number; tab: string; revision?: number }} [table]
 */
function withOutbox(act, table = { seq: 0, tab: "tensors" }) {
  /** @type {Sent[]} */
  const told = [];
  const model = /** @type {AnyModel} */ (/** @type {unknown} */ ({
    get: () => table,
    set: (/** @type {string} */ _name, /** @type {Sent} */ gesture) => told.push(gesture),
    save_changes: () => {},
  }));
  const root = made("div"), box = outbox(model, root);
  try {
    act({ box, told, root });
  } finally {
    box.close();
  }
}
/** @param {Sent[]} told */
const verbs = (told) => told.map((each) => each.verb);

Deno.test("a gesture leaves at once, the next one after its answer", () =>
  withOutbox(({ box, told, root }) => {
    box.send({ verb: "undo" });
    box.send({ verb: "redo" });
    deepEqual(told, [{ verb: "undo", view: box.view, seq: 1 }]);
    equal(root.dataset.busy, "true");
    box.answered({ view: box.view, seq: 1 });
    deepEqual(told.at(-1), { verb: "redo", view: box.view, seq: 2 });
    box.answered({ view: box.view, seq: 2 });
    equal(root.dataset.busy, "false");
  }));

Deno.test("a gesture says which revision of the plan its hand saw", () =>
  withOutbox(({ box, told }) => {
    box.send({ verb: "undo" });
    deepEqual(told, [{ verb: "undo", view: box.view, seq: 1, saw: 7 }]);
  }, { seq: 0, tab: "tensors", revision: 7 }));

Deno.test("answers to other views, to earlier gestures and to nothing are none", () =>
  withOutbox(({ box, told }) => {
    box.send({ verb: "undo" });
    box.answered({ view: box.view, seq: 1 });
    box.send({ verb: "redo" });
    box.send({ verb: "dismiss" });
    box.answered({ view: "another", seq: 9 });
    box.answered({ view: box.view, seq: 1 });
    box.answered(undefined);
    deepEqual(verbs(told), ["undo", "redo"]);
  }));

Deno.test("what may be sent next is told while nothing else is, and forgotten once something is sent", () =>
  withOutbox(({ box, told }) => {
    box.expect({ verb: "drop" });
    deepEqual(told, [{ verb: "drop", ahead: true }]);
    box.send({ verb: "undo" });
    box.expect({ verb: "drop" });
    box.send({ verb: "redo" });
    box.answered({ view: box.view, seq: 1 });
    box.answered({ view: box.view, seq: 2 });
    deepEqual(verbs(told), ["drop", "undo", "redo"]);
  }));

Deno.test("a refresh is asked for only when nothing is on its way", () =>
  withOutbox(({ box, told }) => {
    box.send({ verb: "undo" });
    box.refresh();
    box.answered({ view: box.view, seq: 1 });
    box.refresh();
    deepEqual(verbs(told), ["undo", "refresh"]);
  }));

const page = document.documentElement.dataset;

Deno.test("what was on its way when the connection was cut leaves again, the first with a question whether it arrived", () => {
  page.board = page.asked = "b1";
  let view = "";
  withOutbox(({ box }) => {
    view = box.view;
    box.send({ verb: "undo" });
    box.send({ verb: "open", tab: "memory" });
    dispatchEvent(new Event("workbench:cut"));
  });
  withOutbox(({ box, told }) => {
    equal(box.view, view);
    box.begin();
    deepEqual(told, [{ verb: "undo", view, seq: 1, again: true }]);
    box.answered({ view, seq: 1 });
    deepEqual(told.at(-1), { verb: "open", tab: "memory", view, seq: 2 });
    box.answered({ view, seq: 2 });
    deepEqual(told.at(-1), { verb: "open", tab: "memory", view, seq: 3 }); // it was asked for, and is not shown yet
  });
});

Deno.test("a closed outbox keeps nothing at a cut", () => {
  page.board = page.asked = "b1";
  withOutbox(() => {});
  dispatchEvent(new Event("workbench:cut"));
  equal(keptThroughCut(), null);
});

const KEPT = { view: "v", seq: 3, tab: "memory", gestures: [] };

Deno.test("what a cut left is taken once, by the page that asks for that board", () => {
  page.board = "b1";
  keepThroughCut(KEPT);
  page.asked = "b2";
  equal(keptThroughCut(), null);
  page.asked = "b1";
  deepEqual([keptThroughCut()?.seq, keptThroughCut()], [3, null]);
});

Deno.test("a board without an id keeps nothing, and what is an hour old is gone", () => {
  delete page.board;
  delete page.asked;
  keepThroughCut(KEPT);
  equal(keptThroughCut(), null);
  page.board = page.asked = "b1";
  const now = Date.now;
  keepThroughCut(KEPT);
  Date.now = () => now() + 3_600_001;
  equal(keptThroughCut(), null);
  Date.now = now;
});
