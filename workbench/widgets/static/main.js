// @ts-check
// The module that both hosts have: anywidget in a notebook, Panel in a served page. It draws what Python publishes (`board`, `table`, `live`)
// and sends gestures (`gesture`); it decides nothing. Of the model it uses get, set, save_changes, on and off alone: all that both hosts have.

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
 * @param {{ model: Model; el: HTMLElement }} given
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
