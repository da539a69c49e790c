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

const STYLE = `
  :host { display: block; }
  .room { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 14px; padding: 6px 12px; border: 1px solid var(--line); border-radius: 8px;
    background: var(--ground); color: var(--ink); font: 13px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
    --line: #d0d7de; --ground: #fff; --ink: #1b1f24; --quiet: #57606a; --accent: #3b5ed1; }
  .room.dark { --line: #30363d; --ground: #0d1117; --ink: #e6edf3; --quiet: #9198a1; --accent: #8fa8ff; }
  .name { font-weight: 600; }
  .name a { color: inherit; text-decoration: none; font-weight: 400; color: var(--quiet); }
  .name a:hover { text-decoration: underline; }
  ul { display: flex; flex-wrap: wrap; gap: 6px; margin: 0; padding: 0; list-style: none; }
  .person { display: inline-flex; align-items: center; gap: 6px; min-height: 28px; padding: 0 10px 0 4px; border: 1px solid var(--line); border-radius: 999px;
    background: none; color: inherit; font: inherit; }
  button.person { cursor: pointer; }
  button.person:hover { border-color: var(--ink); }
  button.person[aria-pressed="true"] { border-color: var(--of); box-shadow: inset 0 0 0 1px var(--of); }
  .person.away { opacity: 0.5; }
  .dot { width: 20px; height: 20px; border-radius: 50%; background: var(--of); color: #fff; font-size: 11px; font-weight: 600; line-height: 20px; text-align: center; }
  .where { color: var(--quiet); }
  .until { color: var(--quiet); white-space: nowrap; }
  .until:empty { display: none; }
  .until.over { color: #9a6700; }
  .dark .until.over { color: #d29922; }
  .act.new { border-color: var(--accent); color: var(--accent); font-weight: 600; }
  .where:empty { display: none; }
  .said { flex: 1 1 220px; min-width: 0; color: var(--quiet); white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
  .said b { font-weight: 600; color: var(--ink); }
  .act { min-height: 28px; padding: 0 12px; border: 1px solid var(--line); border-radius: 6px; background: none; color: inherit; font: inherit; cursor: pointer; }
  .act:hover { border-color: var(--ink); }
  .act[aria-expanded="true"] { border-color: var(--ink); }
  .comments { flex: 1 0 100%; display: grid; gap: 8px; padding: 6px 0 4px; border-top: 1px solid var(--line); }
  .room[hidden], .room [hidden] { display: none; }
  .comments ol { display: grid; gap: 6px; margin: 0; padding: 0; max-height: 240px; overflow: auto; list-style: none; }
  .comments li { display: flex; flex-wrap: wrap; gap: 2px 8px; align-items: baseline; }
  .comments p { flex: 1 1 240px; margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
  .comments .link { padding: 0 4px; border: 0; background: none; color: var(--accent); font: inherit; cursor: pointer; }
  .comments .link:hover { text-decoration: underline; }
  form { display: flex; gap: 8px; align-items: end; }
  label { flex: 1; display: grid; gap: 2px; color: var(--quiet); }
  textarea { box-sizing: border-box; width: 100%; min-height: 32px; padding: 5px 8px; border: 1px solid var(--line); border-radius: 6px; background: var(--ground);
    color: var(--ink); font: inherit; resize: vertical; }
  .wrong { color: #cf222e; }
  .dark .wrong { color: #f85149; }
  textarea:focus-visible, button:focus-visible, a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
`;

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

/**
 * By the reader's own clock; in the words of the assignment it is a tooltip.
 * @param {number} at seconds since 1970
 */
function untilText(at) {
  const when = new Date(at * 1000), time = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (when.toDateString() === new Date().toDateString()) return `${time} today`;
  return `${time}, ${when.toLocaleDateString([], { weekday: "short", day: "numeric", month: "short" })}`;
}

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
    until.textContent = !room.until ? "" : isOver ? "over: what comes now does not count" : `until ${untilText(room.deadline ?? 0)}`;
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
  el.append(h("style", {}, STYLE), bar);
  return () => {
    themes.disconnect();
    clearInterval(clock);
    document.removeEventListener("keydown", onKey);
    model.off("change:room", show);
  };
}

/**
 * Up to when this browser has shown the comments of a room, in seconds since 1970.
 * @param {() => string} room
 */
function seenUntil(room) {
  let kept = 0;
  const key = () => `workbench.comments.${room()}`;
  return {
    get() {
      try {
        return Math.max(kept, Number(localStorage.getItem(key())) || 0);
      } catch { // a browser that keeps nothing
        return kept;
      }
    },
    /** @param {number} at */
    set(at) {
      kept = at;
      try {
        localStorage.setItem(key(), String(at));
      } catch { /* a browser that keeps nothing */ }
    },
  };
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
  const seen = seenUntil(() => room?.comments_at ?? "");
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
    if (!section.hidden && last) seen.set(last);
    const fresh = others.filter((each) => each.at > seen.get()).length;
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
