// @ts-check
// Explanations in place: glossary terms (GLOSSARY, from Python) and the components of a number.

import { h, withCode } from "./dom.js";
import { closeMenu, placeMenu } from "./popup.js";
import { GLOSSARY } from "./python_constants.js";
/** @import { Term } from "./types/states.d.ts" */
/** @import { AskedCell } from "./types/table_cells.d.ts" */
/** @import { Marked, Wb } from "./types/board_context.d.ts" */

export const TERMS = new Map(
  GLOSSARY.groups.flatMap((group) => group.terms.flatMap((term) => [term.name.toLowerCase(), ...term.on].map((label) => [label, term]))),
);

/**
 * @param {Term} term
 * @returns {Node[]}
 */
export function explained(term) {
  return [
    h("p", {}, ...withCode(term.says)),
    h(
      "p",
      { class: "sources" },
      term.lesson && drawLesson(term.lesson),
      term.notebook && h("span", {}, `Notebook ${term.number}, `, h("i", {}, `“${term.notebook}”`)),
      term.page && drawLink(term.page, "In the docs ↗"),
      drawLink(term.link, "Read more ↗"),
    ),
  ];
}

/**
 * @param {string} address
 * @param {string} text
 * @returns {HTMLElement}
 */
const drawLink = (address, text) => h("a", { href: address, target: "_blank", rel: "noopener noreferrer", title: address }, text);

/**
 * @param {{ title: string; link: string }} lesson
 * @returns {HTMLElement}
 */
const drawLesson = ({ title, link }) => h("span", {}, "Lesson ", link ? drawLink(link, `“${title}” ↗`) : h("i", {}, `“${title}”`));

/**
 * A label with a glossary entry is a button, marked by a dotted underline.
 * @param {Wb} wb
 * @param {string} text
 * @param {string} [key]
 * @returns {HTMLElement | string}
 */
export function termLabel(wb, text, key = text) {
  const term = TERMS.get(key.toLowerCase());
  if (!term) return text;
  const label = h("button", {
    class: "term",
    type: "button",
    ariaHasPopup: "dialog",
    data: { focus: `term ${key}` },
    onclick: () => openTerm(wb, label, term),
  }, text);
  return label;
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} anchor
 * @param {Term} term
 */
function openTerm(wb, anchor, term) {
  const again = wb.menu?.anchor === anchor;
  closeMenu(wb, false);
  if (again) return;
  const title = h("h3", { tabIndex: -1 }, term.name);
  const element = h("div", { class: "menu meaning", role: "dialog", ariaLabel: term.name }, title, ...explained(term));
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      closeMenu(wb);
    }
  });
  wb.card.append(element);
  placeMenu(wb.card, element, anchor);
  wb.menu = { element, anchor };
  anchor.setAttribute("aria-expanded", "true");
  title.focus({ preventScroll: true });
}

/**
 * @param {Wb} wb
 * @param {string} of
 * @param {Marked} asker
 */
export function askWhy(wb, of, asker) {
  wb.asker = { of, focus: asker };
  wb.send({ verb: "why", of });
}

/**
 * @param {Wb} wb
 * @param {string} of
 * @param {string} about
 * @returns {HTMLElement}
 */
export function drawAsk(wb, of, about) {
  const ask = h("button", {
    class: "ask quiet",
    type: "button",
    ariaLabel: `Why? ${about}`,
    title: "Show the breakdown",
    data: { focus: `why ${of}` },
    onclick: () => askWhy(wb, of, ask),
  }, "Why?");
  return ask;
}

/**
 * A number with an explanation is a button styled as a number.
 * @param {Wb} wb
 * @param {AskedCell} cell
 * @returns {HTMLElement}
 */
export function drawAsked(wb, cell) {
  const ask = h("button", {
    class: "ask number",
    type: "button",
    tabIndex: -1,
    title: `${cell.title ?? ""} · Why?`.replace(/^ · /, ""),
    ariaLabel: `${cell.text}. Why?`,
    data: { focus: `why ${cell.why}` },
    onclick: () => askWhy(wb, cell.why, ask),
  }, cell.text);
  return ask;
}
