// @ts-check
// BokehJS: a served page has it already; a notebook asks its kernel for it once, and the page keeps it for all boards. It is the script of the
// Bokeh that is installed where the board's Python runs, never one of another server.

/** @import { BokehModule } from "./types/chart.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

const page = /** @type {Record<symbol, Map<string, Promise<BokehModule | null>>>} */ (/** @type {unknown} */ (globalThis));
const loading = (page[Symbol.for("sharding-workbench.bokeh")] ??= new Map()); // by version

/**
 * The one of this version, where the page has it.
 * @param {string} version
 * @returns {BokehModule | null}
 */
export function presentBokeh(version) {
  const found = /** @type {any} */ (globalThis).Bokeh;
  return found?.[version] ?? (found?.version === version ? found : null);
}

/**
 * @param {Pick<Wb, "library">} wb
 * @param {string} version
 * @returns {Promise<BokehModule | null>} `null` where it cannot be had
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
 * As a classic script, which is what it is.
 * @param {string} text
 * @returns {Promise<void>}
 */
function runScript(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const script = Object.assign(document.createElement("script"), { src: address });
  return new Promise((/** @type {(value: void) => void} */ done, failed) => {
    script.onload = () => done();
    script.onerror = () => failed(new Error("The script of Bokeh could not be run."));
    document.head.append(script);
  }).then(() => {
    URL.revokeObjectURL(address);
    script.remove();
  });
}
