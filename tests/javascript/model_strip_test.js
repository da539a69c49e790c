// @ts-check
// The strip of the model's sizes: what a hand types into a field stays there, whatever the board says meanwhile.

import { made, seen } from "./page.js";
import { deepEqual, equal } from "./assert.js";
import { modelStrip } from "../../workbench/widgets/static/model_strip.js";
/** @import { Wb } from "../../workbench/widgets/static/types/board_context.d.ts" */

Deno.test("a number that is being typed stays, until it is sent or left", () => {
  /** @type {object[]} */
  const sent = [];
  const wb =
    /** @type {Wb} */ (/** @type {unknown} */ ({ root: made("div"), send: (/** @type {object} */ gesture) => sent.push(gesture) }));
  const strip = modelStrip(wb);
  const paint = () => {
    const size = { name: "batch", kind: /** @type {const} */ ("number"), value: "16", options: [], stops: ["8", "16", "32"], hint: "" };
    strip.paint({ title: "gpt", sizes: [size], work: null, names: [] }, null, 0);
  };
  paint();
  const field = seen(strip.section).querySelectorAll("input")[1];
  const typed = /** @type {{ value: string }} */ (/** @type {unknown} */ (field));
  equal(typed.value, "16");
  typed.value = "2";
  field.dispatchEvent({ type: "input" });
  paint();
  equal(typed.value, "2");
  typed.value = "24";
  field.dispatchEvent({ type: "change" });
  deepEqual(sent, [{ verb: "size_model", name: "batch", value: "24" }]);
  paint(); // the size was refused
  equal(typed.value, "16");
  typed.value = "3";
  field.dispatchEvent({ type: "input" });
  field.dispatchEvent({ type: "blur" });
  paint();
  equal(typed.value, "16");
});
