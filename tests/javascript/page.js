// @ts-check
// As much of a page as the tests of the modules need: elements in a tree, with classes, data and listeners. What a browser does with them
// is for the tests that drive one. A test imports this before the modules it is of, which read `GIVEN`.

/** One condition of a selector: `tag`, `.class`, `[attribute]`. */
const CONDITION = /([\w-]+)|\.([\w-]+)|\[([\w-]+)\]/y;

class FakeElement {
  /** @param {string} tag */
  constructor(tag) {
    this.tag = tag;
    this.className = "";
    this.textContent = "";
    this.disabled = false;
    this.focused = false;
    /** @type {Record<string, string>} */
    this.dataset = {};
    /** @type {Record<string, string>} */
    this.attributes = {};
    /** @type {(FakeElement | string)[]} */
    this.childNodes = [];
    /** @type {FakeElement | null} */
    this.parentElement = null;
    /** @type {Record<string, ((event: object) => void)[]>} */
    this.listeners = {};
    this.classList = {
      /** @param {string} name */
      contains: (name) => this.className.split(" ").includes(name),
      /**
       * @param {string} name
       * @param {boolean} on
       */
      toggle: (name, on) => {
        const others = this.className.split(" ").filter((each) => each && each !== name);
        this.className = [...others, ...(on ? [name] : [])].join(" ");
      },
      /** @param {string} name */
      add: (name) => this.classList.toggle(name, true),
    };
  }
  get children() {
    return this.childNodes.filter((kid) => kid instanceof FakeElement);
  }
  /** @returns {FakeElement[]} */
  get below() {
    return this.children.flatMap((kid) => [kid, ...kid.below]);
  }
  get childElementCount() {
    return this.children.length;
  }
  /** @param {FakeElement} kid */
  prepend(kid) {
    kid.remove();
    kid.parentElement = this;
    this.childNodes.unshift(kid);
  }
  /** @param {{ type: string }} event */
  dispatchEvent(event) {
    for (const listener of this.listeners[event.type] ?? []) listener(event);
    return true;
  }
  /** What a reader sees. @returns {string} */
  get text() {
    return this.textContent + this.childNodes.map((kid) => (typeof kid === "string" ? kid : kid.text)).join("");
  }
  /** @param {...(FakeElement | string)} kids */
  append(...kids) {
    for (const kid of kids) {
      if (kid instanceof FakeElement) {
        kid.remove();
        kid.parentElement = this;
      }
      this.childNodes.push(kid);
    }
  }
  remove() {
    const family = this.parentElement;
    if (family) family.childNodes = family.childNodes.filter((each) => each !== this);
    this.parentElement = null;
  }
  /** @param {...(FakeElement | string)} kids */
  replaceChildren(...kids) {
    for (const kid of this.children) kid.parentElement = null;
    this.childNodes = [];
    this.append(...kids);
  }
  /**
   * @param {string} name
   * @param {string} value
   */
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  /** @param {string} name */
  removeAttribute(name) {
    delete this.attributes[name];
  }
  /**
   * @param {string} event
   * @param {(event: object) => void} listener
   */
  addEventListener(event, listener) {
    (this.listeners[event] ??= []).push(listener);
  }
  /** @param {FakeElement | null} other @returns {boolean} */
  contains(other) {
    return other === this || (other?.parentElement ? this.contains(other.parentElement) : false);
  }
  getRootNode() {
    return globalThis.document;
  }
  focus() {
    Object.assign(globalThis.document, { activeElement: this });
  }
  /** @param {string} condition one compound, such as `.zone[data-axis]` or `.chip:not(.ghost)` @returns {boolean} */
  matches(condition) {
    const [wanted, unwanted] = condition.split(":not(");
    if (unwanted && this.matches(unwanted.slice(0, -1))) return false;
    const parts = [...wanted.matchAll(new RegExp(CONDITION, "g"))];
    return parts.every(([, tag, name, attribute]) => {
      if (tag) return this.tag === tag;
      if (name) return this.classList.contains(name);
      return attribute.startsWith("data-") ? attribute.slice(5) in this.dataset : attribute in this.attributes;
    });
  }
  /** @param {string} selector compounds, of which one is enough @returns {FakeElement | null} */
  closest(selector) {
    return selector.split(", ").some((way) => this.matches(way)) ? this : this.parentElement?.closest(selector) ?? null;
  }
  /** @param {string[]} within compounds, each somewhere around the one behind it, the last around this element @returns {boolean} */
  isWithin(within) {
    const around = this.parentElement;
    if (!within.length) return true;
    return around !== null && around.isWithin(around.matches(within[within.length - 1]) ? within.slice(0, -1) : within);
  }
  /** @param {string} selector @returns {FakeElement[]} */
  querySelectorAll(selector) {
    const ways = selector.split(", ").map((way) => way.split(" "));
    return this.below.filter((each) => ways.some((way) => each.matches(way[way.length - 1]) && each.isWithin(way.slice(0, -1))));
  }
  /** @param {string} selector */
  querySelector(selector) {
    return this.querySelectorAll(selector)[0] ?? null;
  }
}

const page = {
  activeElement: null,
  documentElement: new FakeElement("html"),
  /** @param {string} tag */
  createElement: (tag) => new FakeElement(tag),
  /**
   * @param {string} _space
   * @param {string} tag
   */
  createElementNS: (_space, tag) => new FakeElement(tag),
};
/** A field that is written in. */
class FakeInput extends FakeElement {
  constructor() {
    super("input");
  }
}
const classes = { Element: FakeElement, HTMLInputElement: FakeInput, HTMLSelectElement: class extends FakeElement {} };
Object.assign(globalThis, { ...classes, document: page, window: globalThis, GIVEN: { style: "", glossary: { groups: [] } } });

/**
 * An element of the page, with what the fake tells of it besides.
 * @param {string} tag
 * @param {string} [className]
 * @param {Record<string, string>} [data]
 * @param {...HTMLElement} kids
 * @returns {HTMLElement}
 */
export function made(tag, className = "", data = {}, ...kids) {
  const element = Object.assign(new FakeElement(tag), { className, dataset: data });
  const real = /** @type {HTMLElement} */ (/** @type {unknown} */ (element));
  real.append(...kids);
  return real;
}

/**
 * The text of an element and all in it, and the attributes it was given.
 * @param {Element | undefined} element
 */
export const seen = (element) => /** @type {FakeElement} */ (/** @type {unknown} */ (element));
