// @ts-check
// Bokeh charts: created once per element, then updated with Python's data; the user's zoom is kept while an axis shows the same quantity.

import { loadBokeh, presentBokeh } from "./bokeh.js";
import { leaveKeys, zoomTools } from "./chart_keys.js";
import { dressChart, fillSources, marksOf, modelOf, paintKey, propertiesOf } from "./chart_look.js";
import { paintScale, scaledState, scaleTool } from "./chart_scale.js";
import { dimOthers, drawSpansSoon, fillSpans } from "./chart_timeline.js";
import { all, h, the } from "./dom.js";
import { isChosen } from "./select.js";
/** @import { BokehModel, BokehModule, ChartState, ShownChart } from "./types/chart.d.ts" */
/** @import { Picture } from "./types/table_cells.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

const CHART_HINT = "Plus and minus zoom, A and D pan, 0 shows all; arrow keys move between marks, Enter selects one, Escape exits.";
/** @type {WeakMap<Element, ShownChart>} */
const chartIn = new WeakMap();

/**
 * Draws the charts of a picture and returns true if Bokeh is loaded; otherwise loads it and calls `again` with the outcome.
 * @param {Wb} wb
 * @param {HTMLElement} image
 * @param {Picture} picture
 * @param {(subject: string, opens: string) => void} act called when a mark is clicked
 * @param {(loaded: boolean) => void} again
 * @returns {boolean}
 */
export function paintCharts(wb, image, picture, act, again) {
  const charts = picture.charts ?? [];
  if (!charts.length) return false;
  const bokeh = presentBokeh(charts[0].version);
  if (!bokeh) {
    loadBokeh(wb, charts[0].version).then((module) => again(module !== null));
    return false;
  }
  const before = [...image.children];
  const same = before.length === charts.length && before.every((element, i) => chartIn.get(element)?.state.id === charts[i].id);
  if (!same) {
    removeCharts(image);
    image.replaceChildren(...charts.map((state) => createChart(wb, bokeh, state, act)));
  }
  charts.forEach((state, i) => {
    const shown = /** @type {ShownChart} */ (chartIn.get(image.children[i]));
    the(shown.element, ".plot").ariaLabel = `${(picture.about ?? picture.name).replace(/\.$/, "")}. ${CHART_HINT}`;
    paintKey(wb, shown.element, state);
    fillChart(wb, shown, state);
  });
  return true;
}

/**
 * Removes the charts of an element, from Bokeh's index too.
 * @param {Element} image
 */
export function removeCharts(image) {
  for (const element of all(image, ".chart")) {
    const shown = chartIn.get(element);
    if (!shown) continue;
    chartIn.delete(element);
    shown.view?.remove();
    const place = shown.doc ? shown.bokeh.documents.indexOf(shown.doc) : -1;
    if (place >= 0) shown.bokeh.documents.splice(place, 1);
    shown.doc = null;
  }
}

/**
 * @param {Wb} wb
 * @param {BokehModule} bokeh
 * @param {ChartState} state
 * @param {(subject: string, opens: string) => void} act
 * @returns {HTMLElement}
 */
function createChart(wb, bokeh, state, act) {
  const plot = h("div", { class: "plot", tabIndex: 0, role: "application", data: { focus: `chart ${state.across}` } });
  const status = h("div", { class: "tasktold", role: "status" });
  const element = h("div", { class: "chart" }, h("div", { class: "charttools" }, h("div", { class: "key" })), plot, status);
  /** @type {ShownChart} */
  const shown = {
    element,
    sent: state,
    state,
    own: null,
    bokeh,
    view: null,
    doc: null,
    spans: null,
    drawn: null,
    blocks: null,
    at: -1,
    group: "",
    keyed: false,
    marking: false,
    room: 0,
    height: 0,
    frame: 0,
    timer: 0,
    act: () => {},
  };
  shown.act = (index) => {
    const columns = marksOf(shown)?.data;
    if (columns && index >= 0) act(`${columns.subject?.[index] ?? ""}`, `${columns.opens?.[index] ?? ""}`);
  };
  the(element, ".charttools").append(scaleTool(shown, () => fillChart(wb, shown, shown.sent)), zoomTools(wb, shown));
  chartIn.set(element, shown);
  embed(wb, shown, plot);
  return element;
}

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 * @param {HTMLElement} plot
 */
async function embed(wb, shown, plot) {
  const { roots } = await shown.bokeh.embed.embed_item(shown.state.item, plot);
  const [view] = roots;
  const doc = view.model.document;
  if (!chartIn.has(shown.element)) { // removed while Bokeh was drawing
    view.remove();
    return;
  }
  Object.assign(shown, { view, doc, height: view.model.height });
  const marks = /** @type {BokehModel} */ (marksOf(shown));
  marks.selected.change.connect(() => onTap(wb, shown, marks.selected.indices));
  marks.inspect?.connect(() => {
    if (!shown.keyed) dimOthers(wb, shown, marks.inspected.indices[0] ?? -1);
  });
  plot.addEventListener("pointermove", (event) => {
    if (event.movementX || event.movementY) leaveKeys(wb, shown); // ignore moves caused by redrawing under a still pointer
  });
  plot.addEventListener("pointerup", () => {
    clearMarks(shown); // before Bokeh handles the click
    setTimeout(() => shown.doc && markChart(wb, shown)); // and restore the marks after it
  }, true);
  /** @type {BokehModel} */ (doc.get_model_by_name("x")).change.connect(() => drawSpansSoon(wb, shown));
  new ResizeObserver(() => drawSpansSoon(wb, shown)).observe(plot);
  fillChart(wb, shown, shown.sent, true);
  shown.element.dataset.drawn = "true";
}

/**
 * Clears the selection before Bokeh's hit test, which reports no tap on a mark that is already selected.
 * @param {ShownChart} shown
 */
function clearMarks(shown) {
  const marks = marksOf(shown);
  shown.marking = true;
  if (marks?.selected.indices.length) marks.selected.indices = [];
  shown.marking = false;
}

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 * @param {number[]} indices
 */
function onTap(wb, shown, indices) {
  if (shown.marking) return;
  markChart(wb, shown); // Python owns the selection
  if (indices.length) shown.act(indices[0]);
}

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 * @param {ChartState} sent
 * @param {boolean} [first]
 */
function fillChart(wb, shown, sent, first = false) {
  const before = shown.state, zoomed = /** @type {const} */ (["x", "y"]).filter((name) => !first && isZoomed(shown, name));
  shown.sent = sent;
  const state = shown.state = scaledState(shown), { doc } = shown;
  paintScale(shown);
  if (!doc) return;
  shown.marking = true;
  fillSources(wb, doc, state);
  for (const [name, values] of Object.entries(state.properties)) modelOf(doc, name).setv(propertiesOf(values));
  for (const name of /** @type {const} */ (["x", "y"])) {
    const [start, end] = state.ranges[name], range = modelOf(doc, name), bounds = [Math.min(start, end), Math.max(start, end)];
    const low = Math.min(range.start, range.end), high = Math.max(range.start, range.end);
    const kept = zoomed.includes(name) && before.across === state.across && low >= bounds[0] && high <= bounds[1];
    range.setv({ bounds }); // first, because Bokeh clips the new range to its present bounds
    if (!kept) range.setv({ start, end });
  }
  shown.marking = false;
  if (typeof state.properties.figure?.height === "number") shown.height = state.properties.figure.height;
  setHeight(shown);
  dressChart(wb, shown);
  fillSpans(wb, shown);
  markChart(wb, shown);
}

/**
 * @param {ShownChart} shown
 * @param {"x" | "y"} name
 * @returns {boolean}
 */
function isZoomed({ doc, state }, name) {
  const range = doc && modelOf(doc, name);
  return Boolean(range) && (range?.start !== state.ranges[name][0] || range.end !== state.ranges[name][1]);
}

/**
 * Applies the board's selection to the chart.
 * @param {Wb} wb
 * @param {ShownChart} shown
 */
function markChart(wb, shown) {
  if (shown.spans) return drawSpansSoon(wb, shown);
  const marks = marksOf(shown);
  if (!marks) return;
  const subjects = /** @type {string[]} */ (marks.data.subject ?? []);
  const indices = wb.selected ? subjects.flatMap((subject, i) => (isChosen(wb, subject) ? [i] : [])) : [];
  shown.marking = true;
  if (`${marks.selected.indices}` !== `${indices}`) marks.selected.indices = indices;
  shown.marking = false;
}

/**
 * Restyles all charts of a board after a change of selection or theme.
 * @param {Wb} wb
 */
export function markCharts(wb) {
  for (const element of all(wb.root, ".chart")) {
    const shown = chartIn.get(element);
    if (shown?.doc) markChart(wb, shown);
  }
}

/** @param {Wb} wb */
export function dressCharts(wb) {
  for (const element of all(wb.root, ".chart")) {
    const shown = chartIn.get(element);
    if (!shown?.doc) continue;
    dressChart(wb, shown);
    shown.marking = true;
    fillSources(wb, shown.doc, shown.state);
    shown.marking = false;
    paintKey(wb, element, shown.state);
    markChart(wb, shown);
  }
}

/**
 * Sets the height of a picture's charts: `room` pixels for all of them, or 0 for their default heights.
 * @param {Element} frame
 * @param {number} room
 */
export function fitCharts(frame, room) {
  const elements = all(frame, ".chart");
  for (const element of elements) {
    const shown = chartIn.get(element);
    if (!shown) continue;
    shown.room = room && Math.max(room / elements.length - 34, 160);
    setHeight(shown);
  }
}

/** @param {ShownChart} shown */
function setHeight({ view, room, height }) {
  if (view) view.model.height = room || height;
}
