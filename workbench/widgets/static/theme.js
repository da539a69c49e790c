// @ts-check
// Light, dark or automatic theme, stored in the browser.

import { dressCharts } from "./chart.js";
import { h, one } from "./dom.js";
import { remember, remembered } from "./browser_storage.js";
/** @import { AnyModel, Wb } from "./types/board_context.d.ts" */

const THEMES = ["auto", "light", "dark"];
const STORAGE_KEY = "workbench.theme";

/**
 * The host's theme: JupyterLab, VS Code (where high contrast counts as dark unless declared light) or Colab.
 * @returns {string | undefined}
 */
function hostTheme() {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight !== undefined) return jpThemeLight === "false" ? "dark" : "light";
  if (vscodeThemeKind !== undefined) return vscodeThemeKind.endsWith("light") ? "light" : "dark";
  return document.documentElement.getAttribute("theme") ?? undefined;
}
const HOST_ATTRIBUTES = ["data-jp-theme-light", "data-vscode-theme-kind", "theme"];

// A served page carries the theme on its root element; a notebook page is left unchanged.
const ownPage = () => "theme" in document.documentElement.dataset;

/**
 * @param {string} chosen
 * @param {MediaQueryList} dark
 * @returns {"light" | "dark"}
 */
function themeOf(chosen, dark) {
  const stated = [chosen, hostTheme()].find((theme) => theme === "light" || theme === "dark");
  return stated === "light" || stated === "dark" ? stated : dark.matches ? "dark" : "light";
}

/**
 * @param {Wb} wb
 * @returns {HTMLButtonElement}
 */
export function themeButton(wb) {
  return h("button", {
    class: "btn icon theme",
    type: "button",
    title: `Theme: ${wb.theme}`,
    ariaLabel: `Theme: ${wb.theme}. Change it.`,
    data: { focus: "theme" },
    onclick: () => wb.turnTheme(),
  }, { auto: "◐", light: "☀", dark: "☾" }[wb.theme]);
}

/**
 * @param {Wb} wb
 * @param {AnyModel} model
 * @param {AbortSignal} signal
 * @returns {() => void}
 */
export function makeTheme(wb, model, signal) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = ownPage() && model.get("theme") === "auto" ? remembered(STORAGE_KEY) : null;
  let own = kept !== null && THEMES.includes(kept) ? kept : null;
  const applyTheme = () => {
    wb.theme = own ?? (THEMES.includes(model.get("theme")) ? model.get("theme") : "auto");
    const theme = themeOf(wb.theme, dark);
    wb.root.dataset.theme = theme;
    if (ownPage() && window.parent === window) document.documentElement.dataset.theme = theme;
    dressCharts(wb);
    const button = one(wb.root, "[data-focus=theme]");
    if (button) {
      const fresh = themeButton(wb);
      Object.assign(button, { title: fresh.title, ariaLabel: fresh.ariaLabel, textContent: fresh.textContent });
    }
  };
  wb.turnTheme = () => {
    own = null;
    const next = THEMES[(THEMES.indexOf(wb.theme) + 1) % THEMES.length];
    if (ownPage()) remember(STORAGE_KEY, next);
    model.set("theme", next);
    model.save_changes();
    applyTheme();
    wb.say(`Theme: ${next}.`);
  };
  dark.addEventListener("change", applyTheme, { signal });
  const host = new MutationObserver(applyTheme);
  for (const node of [document.documentElement, document.body]) host.observe(node, { attributes: true, attributeFilter: HOST_ATTRIBUTES });
  signal.addEventListener("abort", () => host.disconnect());
  return applyTheme;
}
