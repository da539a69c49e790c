// @ts-check
// Over a table of tensors or values: where a chip may be dropped, and what a drop changes.

import { drawRefusal } from "./board.js";
import { all, h, keepingFocus, painter } from "./dom.js";
import { drop } from "./drag.js";
/** @import { Refusal, Target } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/**
 * Over the table: where a chip may be dropped without going up to the board, and what a drop changes.
 * @param {Wb} wb
 */
export function tensorBar(wb) {
  const bar = h("div", { class: "tensorbar" });
  /** @type {Paint<{ zones: Target[]; tab: string; refusal: Refusal | null; seq: number }>} */
  const paint = painter(({ zones, tab, refusal }) =>
    keepingFocus(wb.root, bar, () => {
      const targets = zones.map((zone) =>
        h(
          "span",
          {
            class: "droptarget",
            data: { axis: zone.axis, c: zone.colour },
            onclick: (event) => {
              if (wb.held) drop(wb, zone.axis, event.shiftKey);
            },
          },
          h("b", {}, zone.title),
          zone.size ? h("span", { class: "muted" }, `×${zone.size}`) : null,
        )
      );
      /**
       * @param {boolean} only
       * @param {string} label
       * @param {string} title
       */
      const choice = (only, label, title) =>
        h("button", {
          class: "choice",
          type: "button",
          ariaPressed: String(wb.only === only),
          title,
          data: { focus: `only ${only}` },
          onclick: () => {
            wb.only = only;
            for (const each of all(bar, ".choice")) each.ariaPressed = String(each.dataset.focus === `only ${only}`);
          },
        }, label);
      bar.replaceChildren(
        h("div", { class: "line", role: "group", ariaLabel: "Targets" }, h("span", { class: "muted lead" }, "Drop on"), ...targets),
        h(
          "div",
          { class: "line", role: "group", ariaLabel: "What a drop changes" },
          h("span", { class: "muted lead" }, "A drop changes"),
          h(
            "span",
            { class: "choices" },
            choice(false, "the rule", "Every tensor with this dimension moves"),
            choice(
              true,
              tab === "values" ? "only this value" : "only this tensor",
              "An override of this tensor, or a constraint on this value. Alt while dropping does the other",
            ),
          ),
        ),
        refusal ? drawRefusal(wb, refusal) : "",
      );
    })
  );
  return { bar, paint };
}
