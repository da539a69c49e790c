// @ts-check
// Page behaviour beyond plain forms: theme button, copy buttons, confirmations, auto-submit and file fields.

import { followJobs } from "./jobs.js";
import { filterInPlace } from "./gallery.js";

const STORAGE_KEY = "workbench.theme"; // the same key as on the board
const THEMES = ["auto", "light", "dark"];
const NAMES = { auto: "as the system", light: "light", dark: "dark" };

function enableThemeButton() {
  const button = document.querySelector("[data-theme-button]");
  if (!(button instanceof HTMLElement)) return;
  const page = document.documentElement;
  const name = () => button.setAttribute("aria-label", `Theme: ${NAMES[/** @type {"auto"} */ (page.dataset.theme ?? "auto")]}`);
  name();
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(page.dataset.theme ?? "auto") + 1) % THEMES.length];
    if (next === "auto") delete page.dataset.theme;
    else page.dataset.theme = next;
    try {
      localStorage.setItem(STORAGE_KEY, next);
    } catch { /* storage is unavailable */ }
    name();
  });
}

function enableCopyButtons() {
  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
    if (!(button instanceof HTMLElement)) return;
    const text = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy ?? "");
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it and copy";
    }
    setTimeout(() => button.textContent = text, 2000);
  });
  document.addEventListener("focusin", (event) => {
    if (event.target instanceof HTMLInputElement && "copied" in event.target.dataset) event.target.select();
  });
}

/** Asks for confirmation before a form with `data-ask` is submitted. */
function confirmSubmits() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form instanceof HTMLFormElement && form.dataset.ask && !confirm(form.dataset.ask)) event.preventDefault();
  });
}

/** Submits a select on change where its form opts in; without scripts the form has a button. */
function submitOnChange() {
  document.addEventListener("change", (event) => {
    const field = event.target;
    if (field instanceof HTMLSelectElement && "atOnce" in field.dataset) field.form?.requestSubmit();
  });
}

/** Scrolls the current section's link into view on narrow pages. */
function scrollToSection() {
  const tab = document.querySelector(".tabs [aria-current]");
  const tabs = tab?.parentElement;
  if (tab instanceof HTMLElement && tabs) tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}

/** Copies the text of a chosen file into a form field. */
function readFilesIntoFields() {
  document.addEventListener("change", async (event) => {
    const chosen = event.target;
    if (!(chosen instanceof HTMLInputElement) || !chosen.dataset.into || !chosen.files?.[0]) return;
    const field = document.getElementById(chosen.dataset.into);
    if (field instanceof HTMLTextAreaElement) field.value = await chosen.files[0].text();
  });
}

/** Fills time zone fields with the browser's time zone. */
function fillTimeZone() {
  const zone = document.querySelector("input.zone");
  if (zone instanceof HTMLInputElement && zone.value === "UTC") zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

/** Fills the short name of a project from its name until it is typed. */
function proposeShortName() {
  const name = document.querySelector("form[action$='/projects/new'] input[name=name]"),
    short = document.querySelector("input[name=slug]");
  if (!(name instanceof HTMLInputElement && short instanceof HTMLInputElement)) return;
  let proposed = "";
  name.addEventListener("input", () => {
    if (short.value !== proposed) return;
    proposed = name.value.normalize("NFKD").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 40);
    short.value = proposed;
  });
}

scrollToSection();
proposeShortName();
readFilesIntoFields();
fillTimeZone();
enableThemeButton();
enableCopyButtons();
confirmSubmits();
submitOnChange();
filterInPlace();
followJobs();
