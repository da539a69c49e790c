// @ts-check
// The bar above a room's board: who is here, what was done last, and the ways to follow somebody, to branch off, and to comment.
// It decides nothing: it shows `room`, and sends what is asked.

/**
 * @typedef {{ visitor: number; display: string; role: string; colour: string; tab: string; away: boolean; following: number }} Person
 * @typedef {{ who: string; colour: string; text: string; at: number }} Said
 * @typedef {{ id: string; node: number; who: string; text: string; at: number; mine: boolean }} Remark
 * @typedef {{ name: string; project: string; gallery: string; you: number; edits: boolean; branches: boolean; head: number; people: Person[]; said: Said[];
 *   comments: Remark[]; comments_at: string; deadline: number | null; until: string }} Room
 * @typedef {{ get: (name: string) => any; set: (name: string, value: unknown) => void; save_changes: () => void;
 *   on: (event: string, listener: () => void) => void; off: (event: string, listener: () => void) => void }} Model
 */

/**
 * @param {string} tag
 * @param {Record<string, any>} properties
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
function h(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** @param {string} text */
const initials = (text) => text.split(/\s+/).map((word) => word[0] ?? "").join("").slice(0, 2).toUpperCase();

/** @param {number} at seconds since 1970 */
function ago(at) {
  const seconds = Math.max(Date.now() / 1000 - at, 0);
  if (seconds < 10) return "just now";
  return seconds < 90 ? `${Math.round(seconds / 10) * 10} s ago` : `${Math.round(seconds / 60)} min ago`;
}

const CLOCK = /** @type {const} */ ({ weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
/** By the reader's own clock; in the words of the assignment it is a tooltip. @param {number} at seconds since 1970 */
const untilText = (at) => `until ${new Date(at * 1000).toLocaleString([], CLOCK)}`;

/**
 * @param {{ model: Model; el: HTMLElement }} given
 * @returns {() => void}
 */
function render({ model, el }) {
  let seq = 0;
  /** @param {object} asked */
  const ask = (asked) => {
    seq += 1;
    model.set("asked", { ...asked, seq });
    model.save_changes();
  };
  const bar = h("div", { className: "room" });
  bar.setAttribute("role", "region");
  bar.setAttribute("aria-label", "Room");
  const name = h("span", { className: "name" }), people = h("ul", {}), said = h("span", { className: "said" });
  const until = h("span", { className: "until" });
  const spoken = h("span", {}), when = h("span", {});
  people.setAttribute("aria-label", "People in this room");
  spoken.setAttribute("role", "status"); // what was done, and not how long ago: that changes by itself
  said.append(spoken, when);
  const branch = h("button", {
    type: "button",
    className: "act",
    title: "Go on alone, in a room of your own that begins with this history",
  }, "Branch off");
  branch.addEventListener("click", () => ask({ kind: "branch" }));
  const comments = commentSection(ask);
  bar.append(name, people, said, until, comments.button, branch, comments.section);

  // Undo and redo are meant wherever the focus is. Where the board has it, it hears them itself, and lets none through.
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    const at = event.composedPath()[0];
    if (event.defaultPrevented || event.altKey || !(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z") return;
    if (at instanceof Element && at.matches("input, select, textarea, [contenteditable]")) return;
    event.preventDefault();
    ask({ kind: event.shiftKey ? "redo" : "undo" });
  };
  document.addEventListener("keydown", onKey);

  /**
   * @param {Person} person
   * @param {boolean} mine
   * @param {boolean} following
   */
  const draw = (person, mine, following) => {
    const dot = h("span", { className: "dot" }, initials(person.display));
    dot.setAttribute("aria-hidden", "true");
    const where = mine || !person.tab ? "" : ` ${person.tab.replaceAll("_", " ")}`;
    const words = [
      dot,
      mine ? `${person.display} (you${person.role === "viewer" ? ", viewer" : ""})` : person.display,
      h("span", { className: "where" }, following ? ` followed` : where),
    ];
    const title = `${person.display}, ${person.role}${person.away ? ", away" : ""}${
      mine ? "" : following ? "; press to follow no more" : "; press to follow"
    }`;
    const shown = h(mine ? "span" : "button", {
      className: `person${person.away ? " away" : ""}`,
      title,
      ...(mine ? {} : { type: "button" }),
    }, ...words);
    shown.style.setProperty("--of", person.colour);
    if (!mine) {
      shown.setAttribute("aria-pressed", String(following));
      shown.addEventListener("click", () => ask({ kind: "follow", visitor: following ? 0 : person.visitor }));
    }
    return h("li", {}, shown);
  };
  /** @type {Map<number, { look: string; item: HTMLElement }>} */
  const drawn = new Map();
  /**
   * Who has not changed keeps the same button: one that is replaced between press and release was not pressed.
   * @param {Room} room
   */
  const drawPeople = (room) => {
    const focused = /** @type {ShadowRoot | Document} */ (el.getRootNode()).activeElement;
    const leader = room.people.find((each) => each.visitor === room.you)?.following;
    const items = room.people.map((person) => {
      const mine = person.visitor === room.you, following = leader === person.visitor;
      const { visitor, display, role, colour, tab, away } = person;
      const look = JSON.stringify([display, role, colour, mine ? "" : tab, away, mine, following]);
      const before = drawn.get(visitor);
      if (before?.look === look) return before.item;
      const item = draw(person, mine, following);
      drawn.set(visitor, { look, item });
      if (before && focused && before.item.contains(focused)) setTimeout(() => item.querySelector("button")?.focus());
      return item;
    });
    for (const visitor of drawn.keys()) if (!room.people.some((each) => each.visitor === visitor)) drawn.delete(visitor);
    if (items.length !== people.children.length || items.some((item, place) => people.children[place] !== item)) {
      for (const item of [...people.children]) if (!items.includes(/** @type {HTMLElement} */ (item))) item.remove();
      items.forEach((item, place) => {
        if (people.children[place] !== item) people.insertBefore(item, people.children[place] ?? null);
      });
    }
  };
  const show = () => {
    /** @type {Room} */
    const room = JSON.parse(model.get("room"));
    bar.hidden = !room.people;
    if (!room.people) return;
    if (name.textContent !== `${room.project} / ${room.name}`) {
      name.replaceChildren(h("a", { href: room.gallery }, room.project), ` / ${room.name}`);
    }
    drawPeople(room);
    const [last] = room.said, words = last ? `${last.who} ${last.text}` : "";
    if (spoken.textContent !== words) spoken.replaceChildren(...(last ? [h("b", {}, last.who), ` ${last.text}`] : []));
    when.textContent = last ? ` · ${ago(last.at)}` : "";
    branch.hidden = !room.branches;
    const isOver = room.deadline !== null && Date.now() / 1000 > room.deadline;
    until.classList.toggle("over", isOver);
    until.textContent = !room.until ? "" : isOver ? "over: what comes now does not count" : untilText(room.deadline ?? 0);
    until.title = room.until;
    comments.show(room);
    said.title = room.said.map((each) => `${each.who}: ${each.text}, ${ago(each.at)}`).join("\n");
  };
  const dress = () => bar.classList.toggle("dark", document.documentElement.dataset.theme === "dark");
  const themes = new MutationObserver(dress);
  themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  model.on("change:room", show);
  const clock = setInterval(show, 10000);
  dress();
  show();
  el.append(bar);
  return () => {
    themes.disconnect();
    clearInterval(clock);
    document.removeEventListener("keydown", onKey);
    model.off("change:room", show);
  };
}

/**
 * Up to when this browser has shown the comments of a room, in seconds since 1970; it is noted where it is given.
 * @param {string} room
 * @param {number} [at]
 */
function seenUntil(room, at = 0) {
  try {
    if (at) localStorage.setItem(`workbench.comments.${room}`, String(at));
    return Number(localStorage.getItem(`workbench.comments.${room}`)) || 0;
  } catch { // a browser that keeps nothing
    return at;
  }
}

/**
 * What people wrote on the plans of this room's history. It is written through the server's API, like everything that is stored.
 * @param {(asked: object) => void} ask
 */
function commentSection(ask) {
  const section = h("section", { className: "comments", hidden: true, id: "comments" }), list = h("ol", {});
  const button = h("button", { type: "button", className: "act" });
  const written = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 1, maxLength: 2000, required: true }));
  const about = document.createTextNode(""), wrong = h("span", { className: "wrong" });
  const form = h("form", {}, h("label", {}, about, written), h("button", { type: "submit", className: "act" }, "Comment"));
  section.setAttribute("aria-label", "Comments");
  wrong.setAttribute("role", "alert");
  const looks = h("span", { className: "where" }, "Whoever may edit may comment; you are a viewer.");
  section.append(list, looks, form, wrong);
  /** @type {Room | null} */
  let room = null;
  /**
   * @param {string} address
   * @param {RequestInit} request
   * @returns {Promise<boolean>}
   */
  const call = async (address, request) => {
    wrong.textContent = "";
    try {
      const answer = await fetch(address, { ...request, headers: { "Content-Type": "application/json" } });
      if (!answer.ok) wrong.textContent = (await answer.json()).error?.message ?? "The server refused it.";
      return answer.ok;
    } catch {
      wrong.textContent = "The server does not answer.";
      return false;
    }
  };
  button.addEventListener("click", () => {
    section.hidden = !section.hidden;
    button.setAttribute("aria-expanded", String(!section.hidden));
    if (!section.hidden) written.focus();
    if (room) present(room);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = written.value.trim();
    if (!room || !text) return;
    if (await call(room.comments_at, { method: "POST", body: JSON.stringify({ node: room.head, text }) })) written.value = "";
  });
  written.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      /** @type {HTMLFormElement} */ (form).requestSubmit();
    }
  });
  /** @param {Remark} remark */
  const draw = (remark) => {
    const place = h(
      "button",
      { type: "button", className: "link", title: "Go to this plan, and all in the room with you" },
      `plan ${remark.node}`,
    );
    place.addEventListener("click", () => ask({ kind: "go", node: remark.node }));
    const gone = h(
      "button",
      { type: "button", className: "link", ariaLabel: `Take away the comment ${remark.text.slice(0, 40)}` },
      "take away",
    );
    gone.addEventListener("click", () => {
      if (room) call(room.comments_at.replace(/rooms\/[^/]+\/comments$/, `comments/${remark.id}`), { method: "DELETE" });
    });
    const on = remark.node === room?.head ? h("span", { className: "where" }, "this plan") : room?.edits ? place : `plan ${remark.node}`;
    return h(
      "li",
      {},
      h("b", {}, remark.who),
      h("p", {}, remark.text),
      on,
      h("span", { className: "where" }, ago(remark.at)),
      ...(remark.mine ? [gone] : []),
    );
  };
  /**
   * The button says what others wrote since the section was open.
   * @param {Room} now
   */
  const present = (now) => {
    const others = now.comments.filter((each) => !each.mine), last = Math.max(0, ...others.map((each) => each.at));
    const seen = seenUntil(now.comments_at, section.hidden ? 0 : last), fresh = others.filter((each) => each.at > seen).length;
    const words = now.comments.length ? `Comments ${now.comments.length}${fresh ? `, ${fresh} new` : ""}` : "Comment";
    if (button.textContent !== words) button.textContent = words;
    button.classList.toggle("new", fresh > 0);
  };
  return {
    button,
    section,
    /** @param {Room} now */
    show(now) {
      room = now;
      present(now);
      button.setAttribute("aria-expanded", String(!section.hidden));
      list.replaceChildren(...now.comments.map(draw));
      list.hidden = !now.comments.length;
      form.hidden = !now.edits;
      looks.hidden = now.edits;
      about.textContent = `On the present plan, number ${now.head}`;
    },
  };
}

export default { render };
