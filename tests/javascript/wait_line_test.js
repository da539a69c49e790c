// @ts-check
// Seconds that the browser counts, because Python is silent while it works.

import { made } from "./page.js";
import { deepEqual } from "./assert.js";
import { countSeconds } from "../../workbench/widgets/static/wait_line.js";

Deno.test("seconds go on from those that Python sent, until they are stopped", async () => {
  /** @type {number[]} */
  const shown = [];
  const element = made("div");
  Object.assign(element, { isConnected: true });
  const counter = countSeconds(/** @type {HTMLElement} */ (/** @type {unknown} */ (element)), (passed) => shown.push(passed));
  counter.start(16.9);
  while (shown.at(-1) !== 17) await new Promise((resolve) => setTimeout(resolve, 20));
  counter.start(85);
  counter.stop();
  const count = shown.length;
  await new Promise((resolve) => setTimeout(resolve, 300));
  deepEqual([shown[0], shown.at(-1), shown.length], [16, 85, count]);
});
