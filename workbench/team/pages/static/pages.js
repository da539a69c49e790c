// @ts-check
// What a page does beyond its forms: the theme's button, copying, questions before what cannot be taken back, and the parts below.

import { followJobs } from "./jobs.js";
import { filterInPlace } from "./gallery.js";

const KEPT = "workbench.theme"; // as the board keeps it
const THEMES = ["auto", "light", "dark"];
const NAMES = { auto: "as the system", light: "light", dark: "dark" };

function turnsTheme() {
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
      localStorage.setItem(KEPT, next);
    } catch { /* a browser that keeps nothing */ }
    name();
  });
}

/** Copies on a click, and says so for two seconds. */
function copies() {
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

/** Asks before a form that says so is sent. */
function asks() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form instanceof HTMLFormElement && form.dataset.ask && !confirm(form.dataset.ask)) event.preventDefault();
  });
}

/** A list that is chosen from is sent at once where its form says so; without scripts there is a button. */
function sendsAtOnce() {
  document.addEventListener("change", (event) => {
    const field = event.target;
    if (field instanceof HTMLSelectElement && "atOnce" in field.dataset) field.form?.requestSubmit();
  });
}

/** The present section is in sight where not all fit. */
function showsSection() {
  const tab = document.querySelector(".tabs [aria-current]");
  const tabs = tab?.parentElement;
  if (tab instanceof HTMLElement && tabs) tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}

/** A file that is chosen is read into a field of its form. */
function readsFiles() {
  document.addEventListener("change", async (event) => {
    const chosen = event.target;
    if (!(chosen instanceof HTMLInputElement) || !chosen.dataset.into || !chosen.files?.[0]) return;
    const field = document.getElementById(chosen.dataset.into);
    if (field instanceof HTMLTextAreaElement) field.value = await chosen.files[0].text();
  });
}

/** A field for a time zone begins with the browser's. */
function knowsZone() {
  const zone = document.querySelector("input.zone");
  if (zone instanceof HTMLInputElement && zone.value === "UTC") zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

showsSection();
readsFiles();
knowsZone();
turnsTheme();
copies();
asks();
sendsAtOnce();
filterInPlace();
followJobs();
