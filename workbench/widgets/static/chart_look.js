// @ts-check
// Chart data and colours, brightened where they would be too dark on a dark theme.

import { h, the } from "./dom.js";
/** @import { BokehDocument, BokehModel, ChartState, ShownChart } from "./types/chart.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

const BRIGHT = /** @type {Record<string, string>} */ ({ "#3B5A8C": "#8FB0EA", "#3B5ED1": "#7391F2" });

/**
 * @param {string} colour
 * @param {boolean} dark
 * @returns {string}
 */
export const colourOf = (colour, dark) => (dark ? BRIGHT[colour] : undefined) ?? colour;

/**
 * @param {Wb} wb
 * @param {BokehDocument} doc
 * @param {ChartState} state
 */
export function fillSources(wb, doc, state) {
  const dark = isDark(wb);
  for (const [name, columns] of Object.entries(state.sources)) {
    const colours = /** @type {string[] | undefined} */ (columns.color);
    modelOf(doc, name).data = dark && colours ? { ...columns, color: colours.map((colour) => colourOf(colour, true)) } : columns;
  }
}

/** @param {Wb} wb */
export const isDark = (wb) => wb.root.dataset.theme === "dark";

/**
 * @param {BokehDocument} doc
 * @param {string} name
 * @returns {BokehModel}
 */
export const modelOf = (doc, name) => /** @type {BokehModel} */ (doc.get_model_by_name(name));

/**
 * Bokeh property values: objects with numeric keys become maps.
 * @param {Record<string, unknown>} values
 */
export function propertiesOf(values) {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      name === "major_label_overrides"
        ? new Map(Object.entries(/** @type {object} */ (value)).map(([at, text]) => [Number(at), text]))
        : value,
    ]),
  );
}

/**
 * Applies the theme's text and background colours.
 * @param {Wb} wb
 * @param {ShownChart} shown
 */
export function dressChart(wb, { doc }) {
  if (!doc) return;
  const style = getComputedStyle(wb.root), colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const text = colour("--muted"), dark = isDark(wb), hover = doc.get_model_by_name("hover");
  if (hover) hover.tooltips = String(hover.tooltips).replace(/background:[^"]*/, `background:${colour("--bg")};color:${colour("--fg")}`);
  for (const name of ["x axis", "y axis"]) modelOf(doc, name).setv({ major_label_text_color: text, axis_label_text_color: text });
  for (const model of doc._all_models.values()) {
    for (const property of /** @type {const} */ (["fill_color", "line_color"])) {
      const value = property in model.properties ? /** @type {string | { value?: string } | null} */ (model[property]) : null;
      const colour = typeof value === "string" ? value : value?.value;
      const next = typeof colour === "string" ? (dark ? BRIGHT[colour] : darkOf(colour)) : undefined;
      if (next) model[property] = next;
    }
  }
}

/** @param {string} colour */
const darkOf = (colour) => Object.keys(BRIGHT).find((dark) => BRIGHT[dark] === colour);

/**
 * @param {Wb} wb
 * @param {HTMLElement} element
 * @param {ChartState} state
 */
export function paintKey(wb, element, state) {
  the(element, ".key").replaceChildren(
    ...state.key.map(([colour, name, hatched]) => {
      if (!colour) return h("span", {}, name);
      const swatch = h("i", { class: hatched ? "swatch hatched" : "swatch" });
      swatch.style.backgroundColor = colourOf(colour, isDark(wb));
      return h("span", {}, swatch, name);
    }),
  );
}

/**
 * The renderer that the pointer hits.
 * @param {ShownChart} shown
 * @returns {BokehModel | null}
 */
export function marksOf({ doc, spans }) {
  const slices = spans?.starts.length === 0 ? doc?.get_model_by_name("slices") : null; // aggregated spans, when there are too many to draw individually
  return doc && (slices ?? doc.get_model_by_name("marks") ?? doc.get_model_by_name("blocks"));
}
