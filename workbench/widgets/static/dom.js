// @ts-check
// DOM helpers to create, query and patch elements.

/** @import { Problem } from "./types/states.d.ts" */
/** @import { Kid, Paint, Props, Wb } from "./types/board_context.d.ts" */

/**
 * Creates an element from `class`, `data`, `on*` handlers, and properties where the element has them, otherwise attributes.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Props} [props]
 * @param {...Kid} kids
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props = {}, ...kids) {
  const element = document.createElement(tag);
  const properties = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (element));
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") element.className = String(value);
    else if (key === "data") setData(element, /** @type {object} */ (value));
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
    else if (key in element && key !== "list") properties[key] = value;
    else element.setAttribute(key, String(value));
  }
  element.append(...kids.filter(isShown));
  return element;
}

/**
 * @param {HTMLElement} element
 * @param {object} data
 */
function setData(element, data) {
  for (const [key, value] of Object.entries(data)) if (value !== null && value !== undefined) element.dataset[key] = value;
}

/**
 * Drops falsy children, so that `note && h(...)` works.
 * @param {Kid} kid
 * @returns {kid is Node | string}
 */
export const isShown = (kid) => kid !== null && kid !== undefined && kid !== "";

/**
 * All elements that match a selector, as an array.
 * @template {HTMLElement | SVGElement} [E=HTMLElement]
 * @param {ParentNode} within
 * @param {string} selector
 * @returns {E[]}
 */
export const all = (within, selector) => [.../** @type {NodeListOf<E>} */ (within.querySelectorAll(selector))];

/**
 * @template {HTMLElement | SVGElement} [E=HTMLElement]
 * @param {ParentNode} within
 * @param {string} selector
 * @returns {E | null}
 */
export const one = (within, selector) => /** @type {E | null} */ (within.querySelector(selector));

/**
 * The first match, for elements that always exist.
 * @template {HTMLElement | SVGElement} [E=HTMLElement]
 * @param {ParentNode} within
 * @param {string} selector
 * @returns {E}
 */
export const the = (within, selector) => /** @type {E} */ (within.querySelector(selector));

/**
 * The event target as an element.
 * @param {Event} event
 * @returns {HTMLElement}
 */
export const targetOf = (event) => /** @type {HTMLElement} */ (event.target);

/**
 * The closest ancestor that matches a selector.
 * @template {HTMLElement | SVGElement} [E=HTMLElement]
 * @param {Element} element
 * @param {string} selector
 * @returns {E | null}
 */
export const around = (element, selector) => /** @type {E | null} */ (element.closest(selector));

/**
 * The focused element, in the document or in the board's shadow root.
 * @param {Element} element
 * @returns {Element | null}
 */
export const focusedBy = (element) => /** @type {Document | ShadowRoot} */ (element.getRootNode()).activeElement;

export const SVG = "http://www.w3.org/2000/svg";
/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} kids
 * @returns {SVGElement}
 */
export function svg(tag, attributes, ...kids) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...kids);
  return element;
}

/**
 * Renders text between backticks as code.
 * @param {string} text
 * @returns {(HTMLElement | string)[]}
 */
export function withCode(text) {
  return text.split("`").map((piece, i) => (i % 2 ? h("code", {}, piece) : piece)).filter((piece) => piece !== "");
}

/**
 * A problem with its suggested fixes.
 * @param {Problem} problem
 * @returns {Kid[]}
 */
export function drawProblem({ message, ways_out: ways }) {
  return [h("p", {}, ...withCode(message)), ways.length ? h("ul", {}, ...ways.map((way) => h("li", {}, ...withCode(way)))) : null];
}

/**
 * Wraps `draw` so that it runs only when the state has changed.
 * @template T
 * @param {(state: T) => void} draw
 * @returns {Paint<T>}
 */
export function painter(draw) {
  /** @type {string | null} */
  let seen = null;
  return (state, force = false) => {
    const text = JSON.stringify(state);
    if (text === seen && !force) return;
    seen = text;
    draw(state);
  };
}

/** Drawn rows by key. @type {WeakMap<Element, Map<string, { text: string; element: Element }>>} */
const drawnIn = new WeakMap();

/**
 * Keyed reconciliation: a row with unchanged state keeps its element.
 * @template {{ key: string }} T
 * @param {Element} parent
 * @param {T[]} states
 * @param {(state: T) => Element} draw
 */
export function patch(parent, states, draw) {
  const old = drawnIn.get(parent);
  /** @type {Map<string, { text: string; element: Element }>} */
  const drawn = new Map();
  const kids = states.map((state) => {
    let key = state.key;
    while (drawn.has(key)) key += "'";
    const text = JSON.stringify(state);
    const before = old?.get(key);
    const entry = before?.text === text ? before : { text, element: draw(state) };
    drawn.set(key, entry);
    return entry.element;
  });
  drawnIn.set(parent, drawn);
  keepKids(parent, kids);
}

/**
 * Replaces the children only if they differ.
 * @param {Element} parent
 * @param {Element[]} kids
 */
export function keepKids(parent, kids) {
  if (kids.length !== parent.childElementCount || kids.some((kid, i) => parent.children[i] !== kid)) parent.replaceChildren(...kids);
}

/**
 * Runs `draw` in `parent` and restores the focus by `data-focus`.
 * @param {HTMLElement} root
 * @param {HTMLElement} parent
 * @param {() => void} draw
 * @param {string | null} [wanted]
 */
export function keepingFocus(root, parent, draw, wanted = null) {
  const active = /** @type {HTMLElement | null} */ (focusedBy(root));
  const place = wanted ?? (parent.contains(active) ? active?.dataset?.focus : null);
  draw();
  if (!place) return;
  const marked = all(parent, "[data-focus]");
  const [dim] = place.split("@");
  const target = marked.find((item) => item.dataset.focus === place) ?? marked.find((item) => item.dataset.focus?.split("@")[0] === dim);
  (target && !("disabled" in target && target.disabled) ? target : root).focus({ preventScroll: true }); // not the page: undo by keyboard is handled on the card
}

/**
 * Downloads a blob. The link is attached to the page because VS Code intercepts clicks on links to save files, which its embedded browser
 * cannot do.
 * @param {Wb} wb
 * @param {string} name
 * @param {string | Blob} content
 */
export function download(wb, name, content) {
  const url = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type: "text/plain" }) : content);
  const link = h("a", { href: url, download: name, hidden: true });
  wb.root.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
