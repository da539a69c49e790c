// @ts-check
// Between the page and the window around it, which may be a document tab of JupyterLab. It decides nothing: it carries the document's
// text, the wish to save, the theme, and notices with their buttons. Only a parent of the same origin is spoken to or heard. The id of a board
// goes into the address, so that the page finds it again, and this browser remembers its last boards.

const NAME = "sharding-workbench";
const BOARDS = "workbench.boards", ASKED = "workbench.boards.asked";
const MOST_BOARDS = 10;

/**
 * What Python has of this page: traits that are read, and one that is written. Defined here, for this file is served as it stands.
 * @typedef {object} Model
 * @property {(name: string) => any} get
 * @property {(name: string, value: unknown) => void} set
 * @property {() => void} save_changes
 * @property {(event: string, listener: () => void) => void} on
 * @property {(event: string, listener: () => void) => void} off
 */

/** @returns {{ id: string; name: string; time: number }[]} */
function knownBoards() {
  try {
    const known = JSON.parse(localStorage.getItem(BOARDS) ?? "[]");
    return Array.isArray(known) ? known.filter((each) => typeof each?.id === "string") : [];
  } catch {
    return [];
  }
}

/**
 * @param {string} id
 * @param {string} name
 */
function rememberBoard(id, name) {
  const others = knownBoards().filter((each) => each.id !== id);
  try {
    localStorage.setItem(BOARDS, JSON.stringify([{ id, name, time: Date.now() }, ...others].slice(0, MOST_BOARDS)));
  } catch { /* kept nowhere */ }
}

/** The page's first question of a visit. @returns {boolean} */
function isFirstTime() {
  try {
    const asked = sessionStorage.getItem(ASKED);
    sessionStorage.setItem(ASKED, "yes");
    return asked === null;
  } catch {
    return false;
  }
}

/**
 * @param {HTMLElement} box
 * @param {string} tag
 * @returns {HTMLElement}
 */
const the = (box, tag) => /** @type {HTMLElement} */ (box.querySelector(tag));

/**
 * @param {{ model: Model; el: HTMLElement }} given
 * @returns {() => void}
 */
function render({ model, el }) {
  const framed = window.parent !== window;
  const stop = new AbortController();
  /**
   * @param {EventTarget} target
   * @param {string} event
   * @param {(event: any) => void} action
   * @param {AddEventListenerOptions} [options]
   */
  const listen = (target, event, action, options = {}) => target.addEventListener(event, action, { ...options, signal: stop.signal });
  /**
   * @param {string} kind
   * @param {object} [more]
   */
  const post = (kind, more = {}) => framed && window.parent.postMessage({ to: NAME, kind, ...more }, location.origin);
  let seq = 0;
  /**
   * @param {string} kind
   * @param {object} [more]
   */
  const tell = (kind, more = {}) => {
    seq += 1;
    model.set("heard", { kind, seq, ...more });
    model.save_changes();
  };

  const bar = document.createElement("div");
  bar.className = "notice bar";
  bar.setAttribute("role", "alert");
  const showNotice = () => {
    const { title, text, choices, good } = model.get("notice");
    bar.hidden = !text;
    bar.classList.toggle("good", Boolean(good));
    if (!text) return bar.replaceChildren();
    const strong = Object.assign(document.createElement("b"), { textContent: title });
    const buttons = /** @type {[kind: string, label: string, address?: string][]} */ (choices ?? []).map(([kind, label, address]) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: label });
      button.addEventListener("click", () => (address ? location.assign(address) : tell(kind)));
      return button;
    });
    bar.replaceChildren(strong, document.createTextNode(`${text} `), ...buttons);
  };
  // The bar stands in the page, not in this component's shadow, where the page's style does not reach.
  (document.getElementById("notices") ?? el).append(bar);

  const work = Object.assign(document.createElement("div"), { className: "notice bar", hidden: true });
  work.setAttribute("role", "status");
  const showBusy = () => {
    const seconds = model.get("busy");
    work.hidden = !seconds;
    if (!seconds) return work.replaceChildren();
    const said = Object.assign(document.createElement("span"), {
      textContent: `${model.get("doing") || "Working on the plan"} · ${seconds} s `,
    });
    if (work.firstChild) return work.firstChild.replaceWith(said);
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Cancel" });
    button.addEventListener("click", () => tell("stop"));
    work.append(said, button);
  };
  (document.getElementById("working") ?? el).append(work);

  const showFailure = () => {
    const { text, by_link } = model.get("failure"), box = document.getElementById("failure");
    if (!box) return;
    box.hidden = !text;
    the(box, "b").textContent = by_link ? "This link could not be opened" : "This page could not be opened";
    the(box, "span").textContent = text ?? "";
    the(box, "a").hidden = !by_link;
  };
  const hideOpening = () => {
    const box = document.getElementById("opening");
    if (box && model.get("shown") > 0) box.hidden = true;
  };
  const product = document.title;
  const showTitle = () => {
    document.title = model.get("title") ? `${model.get("title")} · ${product}` : product;
  };

  /** @param {unknown} theme */
  const dress = (theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  };
  listen(window, "message", (event) => {
    if (!framed || event.source !== window.parent || event.origin !== location.origin || event.data?.from !== NAME) return;
    const { kind, text, name, theme, exercise = "", answers = "" } = event.data;
    dress(theme);
    if (kind === "open") {
      tell("open", { text: `${text}`, name: `${name}`, theme: `${theme}`, exercise: `${exercise}`, answers: `${answers}` });
    } else if (kind === "theme") tell("theme", { theme: `${theme}` });
    else if (kind === "save") tell("save");
  });
  listen(document, "keydown", (event) => {
    const command = event.ctrlKey || event.metaKey;
    if (command && !event.altKey && event.key.toLowerCase() === "s" && !event.shiftKey) {
      event.preventDefault();
      if (!event.repeat) tell("save");
    } else if (framed && command && event.shiftKey && event.key.toLowerCase() === "c") {
      event.preventDefault();
      post("palette");
    }
  });
  listen(window, "focus", () => post("focus"));
  listen(document, "pointerdown", () => post("focus"), { capture: true });
  const page = document.documentElement;
  const markUnsaved = () => {
    page.dataset.unsaved = String(!framed && model.get("unsaved"));
  }; // the page asks who leaves
  const addressBoard = () => {
    const id = page.dataset.board = model.get("board");
    if (!id) return;
    const address = new URL(location.href);
    if (address.searchParams.get("board") !== id) {
      address.searchParams.set("board", id);
      history.replaceState(history.state, "", address);
    }
    if (!framed) rememberBoard(id, model.get("board_name"));
  };

  const listeners = {
    "change:shown": () => {
      hideOpening();
      post("shown");
    },
    "change:text": () => post("text", { text: model.get("text"), created: model.get("created") }),
    "change:answers": () => post("answers", { text: model.get("answers") }),
    "change:saves": () => post("save"),
    "change:notice": showNotice,
    "change:busy": showBusy,
    "change:failure": showFailure,
    "change:title": showTitle,
    "change:unsaved": markUnsaved,
    "change:board": addressBoard,
    "change:board_name": addressBoard,
  };
  for (const [event, listener] of Object.entries(listeners)) model.on(event, listener);
  for (const show of [showNotice, showFailure, showTitle, hideOpening]) show();
  const known = knownBoards(), isNew = !framed && !new URLSearchParams(location.search).has("board");
  addressBoard();
  markUnsaved();
  if (!framed && known.length) tell("boards", { ids: known.map((each) => each.id), offer: isNew && isFirstTime() });
  const opening = document.querySelector("#opening [role=status]");
  if (opening) opening.textContent = "Preparing the board …";
  post("ready");
  if (model.get("shown")) post("shown"); // a board that was taken up again stands here already
  return () => {
    stop.abort();
    bar.remove();
    work.remove();
    delete page.dataset.unsaved;
    for (const [event, listener] of Object.entries(listeners)) model.off(event, listener);
  };
}

export default { render };
