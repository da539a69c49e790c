// @ts-check
// The help panel: glossary, keyboard shortcuts and a link to the tour.

import { all, h, one } from "./dom.js";
import { closeMenu } from "./popup.js";
import { GLOSSARY } from "./python_constants.js";
import { explained } from "./terms.js";
import { themeButton } from "./theme.js";
import { startTour } from "./tour.js";
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * A panel at the right edge of the visible part of the card, which may be taller than the window.
 * @param {Wb} wb
 * @param {HTMLElement} panel
 */
function placeAside(wb, panel) {
  const card = wb.card.getBoundingClientRect();
  panel.style.top = `${Math.max(8, Math.min(8 - card.top, card.height - panel.offsetHeight - 8))}px`;
}

/**
 * @returns {HTMLElement[]}
 */
function drawGroups() {
  const words = GLOSSARY.groups.map((group) =>
    h(
      "section",
      { class: "group" },
      h("h3", {}, group.title),
      h("dl", {}, ...group.terms.map((term) => h("div", { class: "entry" }, h("dt", {}, term.name), h("dd", {}, ...explained(term))))),
    )
  );
  const keys = GLOSSARY.keys.map((key) => h("div", { class: "entry" }, h("dt", {}, h("kbd", {}, key.press)), h("dd", {}, key.does)));
  return [...words, h("section", { class: "group" }, h("h3", {}, "Keys"), h("dl", { class: "keys" }, ...keys))];
}

/**
 * @param {Wb} wb
 * @param {{ tour?: boolean }} [options]
 * @returns {HTMLElement}
 */
export function helpSection(wb, { tour: toured = true } = {}) {
  const title = h("h2", { tabIndex: -1 }, "Help");
  const search = h("input", {
    class: "field",
    type: "search",
    placeholder: "Search terms",
    ariaLabel: "Search terms and keys",
    oninput: () => filter(),
  });
  const none = h("p", { class: "muted none", hidden: true, role: "status" });
  const body = h("div", { class: "body", tabIndex: 0, role: "group", ariaLabel: "Terms and keys" }, none);
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const entries = all(body, ".entry");
    for (const entry of entries) entry.hidden = !words.every((word) => entry.textContent.toLowerCase().includes(word));
    for (const group of all(body, ".group")) {
      group.hidden = all(group, ".entry").every((entry) => entry.hidden);
    }
    none.hidden = entries.some((entry) => !entry.hidden);
    none.textContent = none.hidden ? "" : `No entry for “${search.value}”. Try a label of the board.`;
  };
  const tour = h("button", {
    class: "btn",
    type: "button",
    onclick: () => {
      hide(false);
      startTour(wb);
    },
  }, "Take the tour");
  const hide = (refocus = true) => {
    if (section.hidden) return;
    section.hidden = true;
    wb.root.querySelector("[data-focus=help]")?.setAttribute("aria-expanded", "false");
    if (refocus) (one(wb.root, "[data-focus=help]") ?? wb.root).focus({ preventScroll: true });
  };
  const close = h("button", { class: "more close", type: "button", ariaLabel: "Close help", onclick: () => hide() }, "×");
  const section = h(
    "aside",
    { class: "helppanel", role: "dialog", ariaLabel: "Help", hidden: true },
    h("header", {}, title, toured ? tour : null, close),
    h("div", { class: "sift" }, search),
    body,
  );
  section.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      hide();
    }
  });
  wb.toggleHelp = () => {
    if (!section.hidden) {
      hide();
      return;
    }
    closeMenu(wb, false);
    if (!one(body, ".group")) body.append(...drawGroups()); // built on first use: it would be more than half of the board's elements
    section.hidden = false;
    wb.root.querySelector("[data-focus=help]")?.setAttribute("aria-expanded", "true");
    placeAside(wb, section);
    title.focus({ preventScroll: true });
  };
  return section;
}

/**
 * The last buttons of the header: theme and help.
 * @param {Wb} wb
 * @returns {HTMLButtonElement[]}
 */
export function helpTools(wb) {
  return [
    themeButton(wb),
    h("button", {
      class: "btn icon",
      type: "button",
      title: "Help (?)",
      ariaLabel: "Help",
      ariaExpanded: "false",
      data: { focus: "help" },
      onclick: () => wb.toggleHelp(),
    }, "?"),
  ];
}
