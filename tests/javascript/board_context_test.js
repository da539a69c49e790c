// @ts-check
// What happens on a board is told to whoever listens.

import "./page.js";
import { deepEqual, equal } from "./assert.js";
import { made, seen } from "./page.js";
import { makeEvents, paintAfterPress } from "../../workbench/widgets/static/board_context.js";

Deno.test("all who listen to an event hear of it at once, in order, and nobody else does", () => {
  const { publish, subscribe } = makeEvents();
  /** @type {string[]} */
  const heard = [];
  subscribe("selected", (path) => {
    heard.push(`first ${path}`);
  });
  subscribe("selected", (path) => {
    heard.push(`second ${path}`);
  });
  subscribe("opened", () => {
    heard.push("opened");
  });
  publish("selected", "w");
  deepEqual(heard, ["first w", "second w"]);
});

Deno.test("an event says whether a listener did what is to be done", () => {
  const { publish, subscribe } = makeEvents(), box = made("g"), row = made("tr");
  equal(publish("picked", box), false);
  subscribe("picked", (mark) => mark === box);
  subscribe("picked", () => {});
  equal(publish("picked", box), true);
  equal(publish("picked", row), false);
});

Deno.test("a repaint waits until the click on what is pressed, and only then", async () => {
  const button = made("button"), text = made("p"), root = made("div", "wb", {}, button, text), stop = new AbortController();
  let paints = 0;
  const paint = paintAfterPress(root, () => paints++, stop.signal);
  const press = (/** @type {HTMLElement} */ target, which = 0) => {
    for (const hear of seen(root).listeners.pointerdown) hear({ button: which, composedPath: () => [target, root] });
  };
  const release = (/** @type {string} */ kind) => dispatchEvent(Object.assign(new Event(kind), { pointerType: "mouse" }));
  const later = () => new Promise((done) => setTimeout(done));

  press(text);
  paint();
  press(button, 2);
  paint();
  equal(paints, 2);
  press(button);
  paint();
  paint();
  release("pointerup");
  equal(paints, 2); // the browser sends the click next
  await later();
  equal(paints, 3);
  press(button);
  release("pointercancel");
  await later();
  equal(paints, 3); // nothing was to be painted
  paint();
  equal(paints, 4);
  stop.abort();
});
