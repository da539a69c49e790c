// @ts-check
// The tensor and value tables: dimensions as draggable chips, folded layers, and the row of drop targets.
// These chips are `lazy`: their legal targets and menu are requested from Python when picked up (`menus.js`).

import { makeDraggable } from "./chip_input.js";
import { drawMarks } from "./chips.js";
import { all, around, h, keepingFocus, painter, targetOf } from "./dom.js";
import { drop } from "./drag.js";
import { askMenu } from "./menus.js";
import { drawRefusal } from "./popup.js";
/** @import { ChipsCell, Dimension, Tag } from "./types/table_cells.d.ts" */
/** @import { LazyChip, Paint, Wb } from "./types/board_context.d.ts" */
/** @import { Refusal, Target } from "./types/states.d.ts" */

/** @type {Record<string, [label: string, placeholder: string]>} */
export const SEARCHES = {
  tensors: ["Search tensors", "Search tensors: path, dimension, axis, role"],
  values: ["Search intermediate values", "Search values: scope, operation, dimension, line"],
};

const NAMELESS = ["", "_"];

/**
 * A table chip to pick up. `source` is the gripped axis, or `*` for the dimension with all its axes.
 * @param {ChipsCell} cell
 * @param {Dimension} dim
 * @param {string} [source]
 * @returns {LazyChip}
 */
function lazyChip(cell, dim, source = "*") {
  const { of, path } = cell;
  return {
    lazy: true,
    key: `${of} ${path} ${dim.place} ${source}`,
    of,
    path,
    rank: cell.chips.length,
    place: dim.place,
    source,
    dim: dim.label,
    rule: dim.dim,
    nameless: NAMELESS.includes(dim.dim),
    illegal: { rule: {}, only: {} },
  };
}

/**
 * @param {Wb} wb
 * @param {ChipsCell} cell
 * @returns {HTMLElement}
 */
export function drawChips(wb, cell) {
  return h(
    "span",
    { class: "dims" },
    ...cell.chips.map((dim) => drawDim(wb, cell, dim)),
    cell.own ? drawOverride(wb, cell) : null,
    ...(cell.tags ?? []).map((tag) => drawTag(wb, tag)),
  );
}

/**
 * @param {Wb} wb
 * @param {ChipsCell} cell
 * @param {Dimension} dim
 * @returns {HTMLElement}
 */
function drawDim(wb, cell, dim) {
  const chip = lazyChip(cell, dim);
  const axes = dim.axes.map((axis, i) =>
    h("span", {
      class: "on",
      title: `Why on ${axis.name}?`,
      data: {
        c: axis.colour,
        source: axis.name,
        asks: `axis ${cell.of} ${dim.place} ${axis.name} ${cell.path}`,
        c0: axis.colour === null ? "" : null,
      },
    }, dim.axes.length > 1 ? `${i + 1} ${axis.name}` : axis.name)
  );
  const grip = h(
    "button",
    {
      class: "grip",
      type: "button",
      tabIndex: -1,
      ariaPressed: "false",
      ariaLabel: `${dim.title}. Of ${cell.path}`,
      title: dim.title,
      ariaHasPopup: "menu",
      "aria-roledescription": "draggable dimension",
      data: { focus: chip.key, dim: dim.dim, place: dim.place },
    },
    h("b", {}, dim.label),
    ...axes,
    ...drawMarks(dim.marks),
  );
  const element = h("span", { class: "dim", data: { chip: chip.key, c: dim.axes[0]?.colour ?? null } }, grip);
  element.addEventListener("contextmenu", (event) => {
    event.preventDefault();
    askMenu(wb, chip, grip);
  });
  makeDraggable(wb, element, grip, grip, (event) => {
    const axis = dim.axes.length > 1 && event && around(targetOf(event), ".on")?.dataset.source;
    return axis ? lazyChip(cell, dim, axis) : chip;
  });
  return element;
}

/**
 * The override or constraint that shards this tensor; a click removes it.
 * @param {Wb} wb
 * @param {ChipsCell} cell
 * @returns {HTMLElement}
 */
function drawOverride(wb, cell) {
  const [kind, pattern] = [cell.own.split(" ")[0], cell.own.slice(cell.own.indexOf(" ") + 1)];
  const back = cell.of === "value" ? "Remove the constraint" : "Remove the override";
  return h(
    "button",
    {
      class: "own",
      type: "button",
      tabIndex: -1,
      title: `${kind} ${pattern}. ${back}`,
      ariaLabel: `${kind} ${pattern}. ${back}`,
      data: { focus: `own ${cell.path}` },
      onclick: () => wb.send({ verb: "by_rules", of: cell.of, path: cell.path, rank: cell.chips.length, zone: "tables" }),
    },
    cell.of === "value" ? `constrained ${cell.given}` : `override ${cell.given}`.trim(),
    h("span", { ariaHidden: "true" }, " ×"),
  );
}

/**
 * @param {Wb} wb
 * @param {Tag} tag
 * @returns {HTMLElement}
 */
function drawTag(wb, tag) {
  return h(
    "button",
    {
      class: "own",
      type: "button",
      tabIndex: -1,
      title: tag.title,
      ariaLabel: tag.title,
      data: { focus: `tag ${tag.title}` },
      onclick: () => wb.send(tag.gesture),
    },
    tag.label,
    h("span", { ariaHidden: "true" }, " ×"),
  );
}

/**
 * Drop targets above the table, with previews, so that the user need not scroll to the board.
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
            for (const button of all(bar, ".choice")) button.ariaPressed = String(button.dataset.focus === `only ${only}`);
          },
        }, label);
      bar.replaceChildren(
        h("div", { class: "line", role: "group", ariaLabel: "Targets" }, h("span", { class: "muted lead" }, "Drop on"), ...targets),
        h(
          "div",
          { class: "line", role: "group", ariaLabel: "What a drop changes" },
          h("span", { class: "muted lead" }, "Drop changes"),
          h(
            "span",
            { class: "choices" },
            choice(false, "the rule", "The rule of this dimension, in every tensor"),
            choice(
              true,
              tab === "values" ? "only this value" : "only this tensor",
              "An override of this tensor, or a constraint on this value (hold Alt to switch while dropping)",
            ),
          ),
        ),
        refusal ? drawRefusal(wb, refusal) : "",
      );
    })
  );
  return { bar, paint };
}
