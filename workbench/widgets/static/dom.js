// @ts-check
// The page: elements made, found and patched. Everything that is drawn goes through here.

/** @import { Problem } from "./types/states.d.ts" */
/** @import { Kid, Paint, Props, Wb } from "./types/board_context.d.ts" */

/**
 * An element: `class`, `data`, `on*` handlers, then properties where there is one and attributes otherwise.
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
 * What there is to show: `note && h(...)` is not a child where the note is empty.
 * @param {Kid} kid
 * @returns {kid is Node | string}
 */
export const isShown = (kid) => kid !== null && kid !== undefined && kid !== "";

/**
 * The elements of a selector, as a list.
 * @template {HTMLElement | SVGElement} [E=HTMLElement]
 * @param {ParentNode} within
 * @param {string} selector
 * @returns {E[]}
 */
export const all = (within, selector) => [.../** @type {NodeListOf<E>} */ (within.querySelectorAll(selector))];

/**
 * The first element of a selector.
 * @template {HTMLElement | SVGElement} [E=HTMLElement]
 * @param {ParentNode} within
 * @param {string} selector
 * @returns {E | null}
 */
export const one = (within, selector) => /** @type {E | null} */ (within.querySelector(selector));

/**
 * The same where it is known to be there.
 * @template {HTMLElement | SVGElement} [E=HTMLElement]
 * @param {ParentNode} within
 * @param {string} selector
 * @returns {E}
 */
export const the = (within, selector) => /** @type {E} */ (within.querySelector(selector));

/**
 * The element that an event came to.
 * @param {Event} event
 * @returns {HTMLElement}
 */
export const targetOf = (event) => /** @type {HTMLElement} */ (event.target);

/**
 * The nearest element around one that a selector names.
 * @template {HTMLElement | SVGElement} [E=HTMLElement]
 * @param {Element} element
 * @param {string} selector
 * @returns {E | null}
 */
export const around = (element, selector) => /** @type {E | null} */ (element.closest(selector));

/**
 * The element that has the focus, where a board stands: in the page, or in a shadow root.
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
 * What stands between backticks, as code.
 * @param {string} text
 * @returns {(HTMLElement | string)[]}
 */
export function withCode(text) {
  return text.split("`").map((piece, i) => (i % 2 ? h("code", {}, piece) : piece)).filter((piece) => piece !== "");
}

/**
 * What is wrong, and the ways out.
 * @param {Problem} given
 * @returns {Kid[]}
 */
export function drawProblem({ message, ways_out: ways }) {
  return [h("p", {}, ...withCode(message)), ways.length ? h("ul", {}, ...ways.map((way) => h("li", {}, ...withCode(way)))) : null];
}

/**
 * Draws only when the state differs from the one drawn last.
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

/** What is drawn in a place, by key. @type {WeakMap<Element, Map<string, { text: string; element: Element }>>} */
const drawnIn = new WeakMap();

/**
 * Children by key: a row whose state is unchanged keeps its element.
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
 * The children, set anew only where they are others.
 * @param {Element} parent
 * @param {Element[]} kids
 */
export function keepKids(parent, kids) {
  if (kids.length !== parent.childElementCount || kids.some((kid, i) => parent.children[i] !== kid)) parent.replaceChildren(...kids);
}

/**
 * Repaint `draw` inside `parent` without losing the keyboard's place: elements are known by their `data-focus`.
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
  const found = marked.find((each) => each.dataset.focus === place) ?? marked.find((each) => each.dataset.focus?.split("@")[0] === dim);
  (found && !("disabled" in found && found.disabled) ? found : root).focus({ preventScroll: true }); // never to the page: undo by key is heard in the card
}

/**
 * Saves a file as the browser saves one. The link is on the page as it is clicked: VS Code sees such clicks, and saves for a browser that in
 * there cannot.
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
