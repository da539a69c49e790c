// @ts-check
// What happens on a board is told to whoever listens.

import "./page.js";
import { deepEqual, equal } from "./assert.js";
import { made } from "./page.js";
import { makeEvents } from "../../workbench/widgets/static/board_context.js";

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
