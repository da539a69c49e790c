// @ts-check
// The container that JupyterLab loads: module federation by hand, so that there is nothing to build. It takes JupyterLab's own modules
// from the shared scope, whatever their version, and gives the plug-in, which is plain ES modules beside this file.

/** @import { Lab } from "../../../types/lab.d.ts" */

/** @typedef {{ loaded?: unknown; get(): Promise<() => object> }} Shared */
/** @typedef {Record<string, Record<string, Shared>>} Scope */
/** @typedef {{ _JUPYTERLAB?: Record<string, object> }} Host */

(() => {
  const here = /** @type {HTMLScriptElement} */ (document.currentScript).src;
  /** @type {Scope} */
  let shared = {};
  const MODULES = [
    "@jupyterlab/application",
    "@jupyterlab/apputils",
    "@jupyterlab/coreutils",
    "@jupyterlab/docmanager",
    "@jupyterlab/docregistry",
    "@jupyterlab/filebrowser",
    "@jupyterlab/launcher",
    "@jupyterlab/notebook",
    "@jupyterlab/services",
    "@jupyterlab/ui-components",
    "@lumino/widgets",
  ];

  /** @param {string} name */
  async function module(name) {
    const versions = Object.values(shared[name] ?? {});
    const found = versions.find((each) => each.loaded) ?? versions[0];
    if (!found) throw new Error(`JupyterLab shares no ${name}`);
    return (await found.get())();
  }

  async function extension() {
    const loaded = await Promise.all(MODULES.map(module));
    const lab = /** @type {Lab} */ (Object.assign({}, ...loaded)); // no name stands in two of them that we use
    const { plugin } = await import(new URL("plugin.js", here).href);
    return () => ({ __esModule: true, default: plugin(lab) });
  }

  const host = /** @type {Host} */ (/** @type {unknown} */ (globalThis));
  (host._JUPYTERLAB ??= {})["sharding-workbench"] = {
    /** @param {Scope} scope */
    init: (scope) => {
      shared = scope;
    },
    /** @param {string} name */
    get: (name) => (name === "./extension" ? extension() : Promise.resolve(() => ({}))),
  };
})();
