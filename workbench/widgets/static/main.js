// @ts-check
// Entry point of both hosts (anywidget and Panel): draws the published state and sends gestures. It uses only the model methods that both
// hosts implement: get, set, save_changes, on and off.

import { h } from "./dom.js";
import { mountFleet } from "./fleet.js";
import { STYLE } from "./python_constants.js";
import { mount } from "./mount.js";
import { withParts } from "./model_parts.js";
/** @import { AnyModel, FleetModel, Model } from "./types/board_context.d.ts" */

/**
 * @param {AnyModel} model
 * @returns {model is FleetModel}
 */
const isFleet = (model) => model.get("board").kind === "fleet";

/**
 * @param {{ model: Model; el: HTMLElement }} context
 * @returns {() => void}
 */
function render({ model, el }) {
  try {
    const shown = withParts(model);
    return isFleet(shown) ? mountFleet(shown, el) : mount(shown, el);
  } catch (error) {
    console.error(error);
    el.append(
      h("style", {}, STYLE),
      h(
        "div",
        { class: "wb" },
        h(
          "div",
          { class: "card" },
          h("div", { class: "failure", role: "alert" }, `The board could not be drawn: ${/** @type {Error} */ (error).message}`),
        ),
      ),
    );
    return () => {};
  }
}

export default { render };
