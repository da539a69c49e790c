// @ts-check
// What a board is told: its parts as texts or objects, what is chosen, and the keys that the whole card hears.

import "./page.js";
import { deepEqual, equal } from "./assert.js";
import { withChange, withParts } from "../../workbench/widgets/static/model_parts.js";
import { isChosen } from "../../workbench/widgets/static/select.js";
import { onShortcut } from "../../workbench/widgets/static/board_context.js";
/** @import { Gesture, Model, Wb } from "../../workbench/widgets/static/types/board_context.d.ts" */

/** @param {Record<string, unknown>} traits @returns {Model} */
const modelOf = (traits) => ({ get: (name) => traits[name], set: () => {}, save_changes: () => {}, on: () => {}, off: () => {} });

Deno.test("a part that is told as text is read once for each text", () => {
  const traits = { board: '{"seq": 1}', theme: '"dark"' }, model = withParts(modelOf(traits));
  const board = model.get("board");
  deepEqual(board, { seq: 1 });
  equal(model.get("board"), board);
  traits.board = '{"seq": 2}';
  deepEqual(model.get("board"), { seq: 2 });
  equal(model.get("theme"), '"dark"');
});

Deno.test("a part that is an object is what it is", () => {
  const board = {};
  equal(/** @type {unknown} */ (withParts(modelOf({ board })).get("board")), board);
});

Deno.test("a change is made where it is, and all else stays what it was", () => {
  const before = { a: 1, b: [{ c: 1 }, { c: 2 }], d: [1, 2], e: null };
  const after = withChange(before, { b: { 1: { c: [3] } }, d: [[1, 2, 3]], e: [{ f: 1 }] });
  deepEqual(after, { a: 1, b: [{ c: 1 }, { c: 3 }], d: [1, 2, 3], e: { f: 1 } });
  deepEqual(before, { a: 1, b: [{ c: 1 }, { c: 2 }], d: [1, 2], e: null });
  equal(after.b[0], before.b[0]);
});

Deno.test("changes are made in turn, and one that was missed is asked for", () => {
  /** @type {Record<string, unknown>} */
  const traits = { board: '{"edition":1,"said":"a"}', changes: "" };
  /** @type {Record<string, () => void>} */
  const hear = {};
  const model = withParts({
    ...modelOf(traits),
    set: (name, value) => {
      traits[name] = value;
    },
    on: (event, listener) => {
      hear[event] = /** @type {() => void} */ (listener);
    },
  });
  let painted = 0;
  model.on("change:board", () => painted++);
  /** @param {number} of @param {object} by */
  const change = (of, by) => {
    traits.changes = JSON.stringify({ part: "board", of, by });
    hear["change:changes"]();
  };
  change(1, { edition: [2], said: ["b"] });
  deepEqual(model.get("board"), { edition: 2, said: "b" });
  equal(painted, 1);
  change(1, { edition: [2], said: ["b"] }); // a page that connects hears the last one again
  equal(traits.gesture, undefined);
  change(4, { edition: [5], said: ["e"] });
  deepEqual(model.get("board"), { edition: 2, said: "b" });
  deepEqual(traits.gesture, { verb: "refresh" });
  traits.board = '{"edition":6,"said":"f"}';
  deepEqual(model.get("board"), { edition: 6, said: "f" });
});

Deno.test("a subject is chosen in every view that names it, and in rows that fold its layer", () => {
  const linked = new Set(), wb = { selected: "layers/3/ffn", linked };
  equal(isChosen(wb, "layers/3/ffn"), true);
  equal(isChosen(wb, "layers/*/ffn"), true);
  equal(isChosen(wb, "layers/*/attention"), false);
  equal(isChosen(wb, "layers/*"), false);
  equal(isChosen({ selected: "layers/*/ffn", linked }, "layers/12/ffn"), true);
  equal(isChosen({ selected: "layers/*/ffn", linked }, "layers/x/ffn"), false);
  equal(isChosen({ selected: "a.b", linked }, "a*b"), false);
  equal(isChosen({ selected: "", linked }, ""), false);
});

Deno.test("what a selected scope holds is chosen, and what a selected line makes", () => {
  const linked = new Set(["grad/head/dot_general"]);
  equal(isChosen({ selected: "layers/mlp", linked }, "layers/mlp/dot_general"), true);
  equal(isChosen({ selected: "layers/mlp", linked }, "layers/mlp2/dot_general"), false);
  equal(isChosen({ selected: "gpt.py:181", linked }, "grad/head/dot_general"), true);
  equal(isChosen({ selected: "", linked }, "grad/head/dot_general"), false);
});

/**
 * What a key sends or turns, and whether it left the card.
 * @param {Record<string, unknown>} key
 */
function pressedOn(key) {
  /** @type {(Gesture | string)[]} */
  const done = [];
  const wb = /** @type {Wb} */ (/** @type {unknown} */ ({
    send: (/** @type {Gesture} */ gesture) => done.push(gesture.verb),
    toggleHelp: () => done.push("help"),
  }));
  let stopped = false;
  const stop = () => {
    stopped = true;
  };
  const event = {
    key: "",
    ctrlKey: false,
    metaKey: false,
    altKey: false,
    shiftKey: false,
    target: null,
    preventDefault() {},
    stopPropagation: stop,
  };
  onShortcut(wb, /** @type {KeyboardEvent} */ (/** @type {unknown} */ ({ ...event, ...key })));
  return [...done, stopped];
}

Deno.test("control or command with Z undoes, with shift it does again", () => {
  deepEqual(pressedOn({ key: "z", ctrlKey: true }), ["undo", true]);
  deepEqual(pressedOn({ key: "Z", metaKey: true, shiftKey: true }), ["redo", true]);
});

Deno.test("while a field is written in, keys are its own", () => {
  const target = new HTMLInputElement();
  deepEqual(pressedOn({ key: "z", ctrlKey: true, target }), [false]);
  deepEqual(pressedOn({ key: "?", target }), [true]);
});

Deno.test("plain keys stay in the card, those of the browser leave it", () => {
  deepEqual(pressedOn({ key: "?" }), ["help", true]);
  deepEqual(pressedOn({ key: "j" }), [true]);
  deepEqual(pressedOn({ key: "s", ctrlKey: true }), [false]);
  deepEqual(pressedOn({ key: "ArrowLeft", altKey: true }), [false]);
});
