// @ts-check
// Loads BokehJS once per page: served pages include it, and notebooks request the script of the installed Bokeh from their kernel.

/** @import { BokehModule } from "./types/chart.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

const page = /** @type {Record<symbol, Map<string, Promise<BokehModule | null>>>} */ (/** @type {unknown} */ (globalThis));
const loading = (page[Symbol.for("sharding-workbench.bokeh")] ??= new Map()); // by version

/**
 * BokehJS of this version, if the page has loaded it.
 * @param {string} version
 * @returns {BokehModule | null}
 */
export function presentBokeh(version) {
  const bokeh = /** @type {any} */ (globalThis).Bokeh;
  return bokeh?.[version] ?? (bokeh?.version === version ? bokeh : null);
}

/**
 * @param {Pick<Wb, "library">} wb
 * @param {string} version
 * @returns {Promise<BokehModule | null>} `null` if it could not be loaded
 */
export function loadBokeh(wb, version) {
  const present = presentBokeh(version);
  if (present) return Promise.resolve(present);
  const ask = wb.library;
  if (!ask) return Promise.resolve(null);
  const known = loading.get(version) ?? ask().then(runScript).then(() => presentBokeh(version)).catch(() => null);
  loading.set(version, known);
  return known;
}

/**
 * Runs the text as a classic script: BokehJS is not an ES module.
 * @param {string} text
 * @returns {Promise<void>}
 */
function runScript(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const script = Object.assign(document.createElement("script"), { src: address });
  return new Promise((/** @type {(value: void) => void} */ done, failed) => {
    script.onload = () => done();
    script.onerror = () => failed(new Error("The BokehJS script could not be run."));
    document.head.append(script);
  }).then(() => {
    URL.revokeObjectURL(address);
    script.remove();
  });
}
