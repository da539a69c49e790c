// @ts-check
// Selection: whatever carries `data-subject` (a row, a mark of a picture) can be chosen, and is then marked in every view; what colleagues in
// the same room have chosen is outlined in their colour, with their name.
// A subject is the path of an argument, value or collective; `*` in it stands for the layer numbers of rows folded together.

import { all, around, targetOf } from "./dom.js";
/** @import { Colleague, Marked, Wb } from "./types/board_context.d.ts" */

/** @type {Map<string, RegExp>} */
const subjectPatterns = new Map();

/**
 * `path` is the subject, or one of the layers folded in it.
 * @param {string} subject
 * @param {string} path
 * @returns {boolean}
 */
export function namesPath(subject, path) {
  if (subject === path) return true;
  if (!subject.includes("*")) return false;
  const pattern = subjectPatterns.get(subject) ?? patternOf(subject);
  subjectPatterns.set(subject, pattern);
  return pattern.test(path);
}

/**
 * A subject as a pattern: `*` is a layer's number.
 * @param {string} subject
 * @returns {RegExp}
 */
function patternOf(subject) {
  const parts = subject.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("\\d+")}$`);
}

/**
 * A path that is selected, one of a selected scope, or one that a selected line makes.
 * @param {Pick<Wb, "selected" | "linked">} wb
 * @param {string | undefined} subject
 * @returns {boolean}
 */
export function isChosen(wb, subject) {
  if (!wb.selected || !subject) return false;
  const selected = wb.selected;
  return namesPath(subject, selected) || namesPath(selected, subject) || subject.startsWith(`${selected}/`) || wb.linked.has(subject);
}

/**
 * After every paint: what is chosen carries the class, and each table has one row where the tab key stops.
 * @param {Wb} wb
 * @param {string} selected
 * @param {boolean} [relinked] whether other paths come from it than before
 */
export function markChosen(wb, selected, relinked = false) {
  const moved = wb.selected !== selected || relinked;
  wb.selected = selected;
  for (const each of all(wb.root, "[data-subject]")) {
    const chosen = isChosen(wb, each.dataset.subject);
    if (chosen === each.classList.contains("chosen")) continue;
    each.classList.toggle("chosen", chosen);
    if (chosen) each.setAttribute("aria-current", "true");
    else each.removeAttribute("aria-current");
  }
  for (const each of all(wb.root, ".image [data-opens]")) {
    each.classList.toggle("holds", Boolean(selected) && selected.startsWith(`${each.dataset.opens}/`));
  }
  if (moved) wb.publish("selected", selected);
  for (const body of all(wb.root, "tbody")) {
    const rows = all(body, ":scope > [data-subject]");
    if (!rows.length || (!moved && rows.some((row) => row.tabIndex === 0))) continue;
    const stop = rows.find((row) => row.classList.contains("chosen")) ?? rows[0];
    for (const row of rows) row.tabIndex = row === stop ? 0 : -1;
  }
}

/**
 * @param {Wb} wb
 * @param {Marked} element
 */
function selectSubject(wb, element) {
  const subject = element.dataset.subject;
  wb.say(isChosen(wb, subject) ? "Nothing selected." : `${subject} selected.`);
  wb.send({ verb: "select", path: isChosen(wb, subject) ? wb.selected : subject });
}

/**
 * What was chosen is selected, unless somebody else knows what that does.
 * @param {Wb} wb
 * @param {Marked} element
 */
function pick(wb, element) {
  if (!wb.publish("picked", element)) selectSubject(wb, element);
}

/**
 * Within a picture no mark takes the focus: the picture has it, and arrows walk over its marks.
 * @param {Wb} wb
 * @param {Element} image
 * @param {KeyboardEvent} event
 */
function walkMarks(wb, image, event) {
  /** @type {Marked[]} */
  const marks = all(image, "[data-subject], [data-opens]");
  if (!marks.length) return;
  const now = marks.findIndex((mark) => mark.classList.contains("at"));
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter" && now >= 0) {
    if (marks[now].dataset.opens) wb.publish("opened", marks[now]);
    else pick(wb, marks[now]);
  } else if (step) {
    const next = marks[(now + step + (now < 0 && step < 0 ? 1 : 0) + marks.length) % marks.length];
    marks[now]?.classList.remove("at");
    next.classList.add("at");
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
    wb.say(next.querySelector("title")?.textContent || next.dataset.subject || next.dataset.opens || "");
  } else return;
  event.preventDefault();
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} row
 * @param {KeyboardEvent} event
 */
function walkRows(wb, row, event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter") selectSubject(wb, row);
  else if (step) {
    const rows = row.parentElement ? all(row.parentElement, ":scope > [data-subject]") : [];
    const next = rows[rows.indexOf(row) + step];
    if (!next) return;
    row.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  } else return;
  event.preventDefault();
}

/**
 * Arrows within a table: left and right over a row's buttons, up and down to the row before and after.
 * @param {Wb} wb
 * @param {KeyboardEvent} event
 * @returns {boolean}
 */
function walkRow(wb, event) {
  const at = targetOf(event), row = around(at, "tbody > tr");
  if (!row || wb.held) return false;
  /**
   * @param {Element} tr
   * @returns {HTMLElement[]}
   */
  const buttons = (tr) => all(tr, ".fold, .grip, .own, .ask");
  const mine = buttons(row), now = mine.indexOf(at);
  if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
    const next = now + (event.key === "ArrowRight" ? 1 : -1);
    if (next === -1 && now === 0 && row.dataset.subject) row.focus();
    else mine[next]?.focus();
    return next >= -1 && mine.length > 0;
  }
  const next = /** @type {HTMLElement | null | undefined} */ (
    { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key]
  );
  if (!next || now < 0) return false;
  const others = buttons(next);
  (others[Math.min(now, others.length - 1)] ?? next).focus();
  return true;
}

/**
 * One handler for the whole card: what is drawn later needs none of its own.
 * @param {Wb} wb
 */
export function makeSelectable(wb) {
  wb.root.addEventListener("click", (event) => {
    const at = targetOf(event);
    if (at.closest("button, input, select, a, summary, label, [data-no-select]")) return;
    const found = around(at, "[data-subject]");
    if (found && String(getSelection?.() ?? "") === "") pick(wb, found); // text marked with the mouse is no click
  });
  wb.root.addEventListener("keydown", (event) => {
    const at = targetOf(event);
    if (at.closest("tbody") && walkRow(wb, event)) event.preventDefault();
    else if (at.matches("[data-subject]")) walkRows(wb, at, event);
    else if (at.matches(".image")) walkMarks(wb, at, event);
  });
}

/**
 * After every paint: the rows and marks that a colleague has selected, and the dimension that one holds.
 * @param {Wb} wb
 * @param {Colleague[]} colleagues
 */
export function markColleagues(wb, colleagues) {
  if (!colleagues.length && !wb.root.querySelector(".theirs")) return;
  for (const each of all(wb.root, "[data-subject], .chip[data-chip]")) {
    const theirs = colleagues.find((colleague) => hasIt(colleague, each));
    if (each.dataset.theirs === (theirs?.name ?? undefined)) continue;
    each.classList.toggle("theirs", Boolean(theirs));
    if (theirs) {
      each.dataset.theirs = theirs.name;
      each.style.setProperty("--theirs", theirs.colour);
      each.style.setProperty("--their-name", JSON.stringify(theirs.name)); // a text of CSS, for the first cell of a row
    } else {
      delete each.dataset.theirs;
      each.style.removeProperty("--theirs");
      each.style.removeProperty("--their-name");
    }
  }
}

/**
 * @param {Colleague} colleague
 * @param {HTMLElement} element
 * @returns {boolean}
 */
function hasIt({ selected, hand }, element) {
  const { subject, chip } = element.dataset;
  if (chip) return hand !== "" && chip.startsWith(`${hand}@`);
  return Boolean(subject && selected) && (namesPath(subject ?? "", selected) || namesPath(selected, subject ?? ""));
}
