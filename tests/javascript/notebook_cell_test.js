// @ts-check
// What a notebook keeps of a board: it asks the kernel for the rest, the first one of a page for the module as well.

import { made, seen } from "./page.js";
import { deepEqual, equal } from "./assert.js";
/** @import { CellModel } from "../../workbench/widgets/static/types/board_context.d.ts" */

Object.assign(globalThis, { VERSION: "v1", PARTS: ["board", "table"] });
const { default: cell } = await import("../../workbench/widgets/static/notebook_cell.js");

const MODULE = `export default { render({ model, el }) {
  globalThis.shownModel = model;
  el.dataset.drawn = model.get("board").name;
  model.on("change:board", () => { el.dataset.drawn = model.get("board").name; });
  return () => { el.dataset.drawn = "closed"; };
} }`;

/** A cell, what it asked for, and how the kernel answers it. */
function shown() {
  const el = made("div");
  /** @type {object[]} */
  const asked = [];
  /** @type {Set<(answer: object) => Promise<void>>} */
  const hears = new Set(), cut = new Set();
  /** @param {string} event */
  const of = (event) => (event === "msg:custom" ? hears : cut);
  const model = /** @type {CellModel} */ (/** @type {unknown} */ ({
    get: (/** @type {string} */ name) => name,
    on: (/** @type {string} */ event, /** @type {(answer: object) => Promise<void>} */ hear) => of(event).add(hear),
    off: (/** @type {string} */ event, /** @type {(answer: object) => Promise<void>} */ hear) => of(event).delete(hear),
    send: (/** @type {object} */ message) => asked.push(message),
  }));
  const close = cell.render({ model, el });
  const place = /** @type {HTMLElement} */ (el.children[0]);
  /** @param {object} message */
  const answer = (message) => Promise.all([...hears].map((hear) => hear(message)));
  const lose = () => cut.forEach((hear) => hear());
  return { el, asked, close, place, answer, hears, lose };
}

Deno.test("the picture stands until the kernel has told every part and the module", async () => {
  const { asked, place, answer, close } = shown();
  equal(place.innerHTML, "picture");
  deepEqual(asked, [{ want: "module" }]);
  await answer({ module: MODULE, parts: { board: { name: "one" } } });
  equal(place.dataset.drawn, undefined);
  await answer({ module: MODULE, parts: { table: {} } });
  equal(place.dataset.drawn, "one");
  await answer({ parts: { board: { name: "two" } } });
  equal(place.dataset.drawn, "two");
  close();
  equal(place.dataset.drawn, "closed");
});

Deno.test("the second board of a page takes the module that is there", async () => {
  const { asked, place, answer, close } = shown();
  deepEqual(asked, [{ want: "parts" }]);
  await answer({ parts: { board: { name: "three" }, table: {} } });
  equal(place.dataset.drawn, "three");
  close();
});

Deno.test("what draws charts is asked for when a chart is there, and comes as a text", async () => {
  const { asked, answer, close } = shown();
  await answer({ parts: { board: { name: "five" }, table: {} } });
  const { shownModel } = /** @type {{ shownModel: CellModel }} */ (/** @type {unknown} */ (globalThis));
  const library = shownModel.library?.();
  deepEqual(asked.at(-1), { want: "library" });
  await answer({ library: "the script" });
  equal(await library, "the script");
  close();
});

Deno.test("a kernel that cannot draw the board says why in its place", async () => {
  const { place, answer, close } = shown();
  await answer({ failure: "no room" });
  equal(seen(place).text, "The board could not be drawn: no room");
  close();
});

Deno.test("a closed cell hears nothing more, and is not drawn by what comes late", async () => {
  const { place, answer, close, hears } = shown();
  const late = answer({ parts: { board: { name: "four" }, table: {} } });
  close();
  await late;
  equal(hears.size, 0);
  equal(place.dataset.drawn, undefined);
});

Deno.test("edits are handed to the notebook, and offered again by what it stored", async () => {
  const { el, asked, answer, close } = shown();
  /** @type {object[]} */
  const kept = [];
  seen(el).addEventListener("sharding-workbench:kept", (event) => kept.push(/** @type {CustomEvent} */ (event).detail));
  const record = { edits: [{}, {}], to: "b" };
  await answer({ kept: { record } });
  await answer({ kept: { record, picture: "<table>" } });
  deepEqual(kept, [{ record }, { record, picture: "<table>" }]);
  equal(seen(el).text, "2 edits not in the code of this cellWrite to cell");
  await answer({ offer: record });
  equal(seen(el).text, "This cell stored 2 edits: bContinueDiscard");
  const [go] = seen(el).below.filter((each) => each.textContent === "Continue");
  go.listeners.click[0]({});
  deepEqual(asked.at(-1), { want: "continue", record });
  close();
});

Deno.test("a board whose kernel is gone says at once what to do, and takes no more gestures", async () => {
  const { el, place, answer, lose, close } = shown();
  await answer({ parts: { board: { name: "six" }, table: {} } });
  lose();
  equal(place.inert, true);
  equal(seen(el).text, "The kernel of this board is gone. Run the cell again: its edits are kept in the notebook.");
  close();
});
