// @ts-check
// Elements made, patched and painted.

import "./page.js";
import { deepEqual, equal } from "./assert.js";
import { made, seen } from "./page.js";
import { h, keepingFocus, painter, patch, withCode } from "../../workbench/widgets/static/dom.js";

/** @param {Element} place */
const texts = (place) => [...place.children].map((each) => seen(each).text);

Deno.test("an element has its class, data, listeners and children, and nothing of what is not there", () => {
  let clicks = 0;
  const element = h(
    "div",
    { class: "zone", data: { axis: "", colour: null }, title: null, role: "group", onclick: () => clicks++ },
    "",
    null,
    "x",
  );
  equal(element.className, "zone");
  deepEqual(seen(element).dataset, { axis: "" });
  deepEqual(seen(element).attributes, { role: "group" });
  deepEqual(seen(element).childNodes, ["x"]);
  seen(element).listeners.click[0]({});
  equal(clicks, 1);
});

Deno.test("what stands between backticks is code", () => {
  const [before, code, after] = withCode("use `data:4` here");
  equal(before, "use ");
  equal(seen(/** @type {Element} */ (code)).tag, "code");
  equal(after, " here");
  deepEqual(withCode(""), []);
});

Deno.test("a painter draws again only what differs, or when it must", () => {
  /** @type {number[]} */
  const drawn = [];
  const paint = painter((/** @type {{ a: number }} */ { a }) => drawn.push(a));
  paint({ a: 1 });
  paint({ a: 1 });
  paint({ a: 2 });
  paint({ a: 2 }, true);
  deepEqual(drawn, [1, 2, 2]);
});

/** @param {{ key: string; text: string }} state */
const drawText = ({ text }) => h("li", {}, text);

Deno.test("a patched child keeps its element while its state is the same, wherever it moves", () => {
  const place = made("ul");
  patch(place, [{ key: "a", text: "A" }, { key: "b", text: "B" }], drawText);
  const [a, b] = place.children;
  patch(place, [{ key: "b", text: "B" }, { key: "a", text: "A2" }, { key: "c", text: "C" }], drawText);
  deepEqual(texts(place), ["B", "A2", "C"]);
  equal(place.children[0], b);
  equal(place.children[1] === a, false);
});

Deno.test("children under one key are all drawn, and kept apart", () => {
  const place = made("ul"), twice = [{ key: "a", text: "1" }, { key: "a", text: "2" }];
  patch(place, twice, drawText);
  const before = [...place.children];
  patch(place, twice, drawText);
  deepEqual(texts(place), ["1", "2"]);
  equal([...place.children].every((each, i) => each === before[i]), true);
});

Deno.test("children that stay the same are not put in again: that would take the focus from them", () => {
  const place = made("ul"), states = [{ key: "a", text: "A" }];
  patch(place, states, drawText);
  place.replaceChildren = () => {
    throw new Error("put in again");
  };
  patch(place, states, drawText);
  deepEqual(texts(place), ["A"]);
});

Deno.test("a patched place forgets children that are gone", () => {
  const place = made("ul");
  patch(place, [{ key: "a", text: "A" }], drawText);
  const [old] = place.children;
  patch(place, [], drawText);
  patch(place, [{ key: "a", text: "A" }], drawText);
  equal(place.children[0] === old, false);
});

/**
 * The place that has the focus after what had it was drawn anew.
 * @param {string[]} focusable what is drawn anew
 * @param {string | null} wanted
 */
function focusAfter(focusable, wanted = null) {
  const old = made("button", "", { focus: "batch@data" }), parent = made("div", "", {}, old), root = made("div", "", {}, parent);
  old.focus();
  keepingFocus(root, parent, () => parent.replaceChildren(...focusable.map((focus) => made("button", "", { focus }))), wanted);
  const active = /** @type {HTMLElement} */ (document.activeElement);
  return active === root ? "root" : active.dataset.focus;
}

Deno.test("the focus stays at its place, follows its dimension, and is never lost to the page", () => {
  equal(focusAfter(["batch@model", "batch@data"]), "batch@data");
  equal(focusAfter(["heads@data", "batch@model"]), "batch@model");
  equal(focusAfter(["heads@data"]), "root");
  equal(focusAfter(["batch@data", "heads@model"], "heads@model"), "heads@model");
});
