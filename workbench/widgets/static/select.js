// @ts-check
// Selection: elements with `data-subject` can be selected and are marked in every view, including colleagues' selections in their colours.
// A subject is the path of an argument, value or collective; `*` matches the layer numbers of folded rows.

import { all, around, targetOf } from "./dom.js";
/** @import { Colleague, Marked, Wb } from "./types/board_context.d.ts" */

/** @type {Map<string, RegExp>} */
const subjectPatterns = new Map();

/**
 * Whether `path` is the subject or one of the layers folded into it.
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
 * A subject as a regular expression: `*` matches a layer number.
 * @param {string} subject
 * @returns {RegExp}
 */
function patternOf(subject) {
  const parts = subject.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("\\d+")}$`);
}

/**
 * Whether a path is selected, directly, by its scope or by its source line.
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
 * Marks the selection and sets one tab stop per table; called after every paint.
 * @param {Wb} wb
 * @param {string} selected
 * @param {boolean} [relinked] whether the paths of the selected line have changed
 */
export function markChosen(wb, selected, relinked = false) {
  const moved = wb.selected !== selected || relinked;
  wb.selected = selected;
  for (const element of all(wb.root, "[data-subject]")) {
    const chosen = isChosen(wb, element.dataset.subject);
    if (chosen === element.classList.contains("chosen")) continue;
    element.classList.toggle("chosen", chosen);
    if (chosen) element.setAttribute("aria-current", "true");
    else element.removeAttribute("aria-current");
  }
  for (const element of all(wb.root, ".image [data-opens]")) {
    element.classList.toggle("holds", Boolean(selected) && selected.startsWith(`${element.dataset.opens}/`));
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
 * Selects the subject unless a subscriber handles the pick.
 * @param {Wb} wb
 * @param {Marked} element
 */
function pick(wb, element) {
  if (!wb.publish("picked", element)) selectSubject(wb, element);
}

/**
 * Pictures take the focus themselves; arrow keys move over their marks.
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
 * Arrow keys in a table: left and right between a row's buttons, up and down between rows.
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
  const targets = buttons(next);
  (targets[Math.min(now, targets.length - 1)] ?? next).focus();
  return true;
}

/**
 * Delegated handlers for the card, so that redrawn elements need none.
 * @param {Wb} wb
 */
export function makeSelectable(wb) {
  wb.root.addEventListener("click", (event) => {
    const at = targetOf(event);
    if (at.closest("button, input, select, a, summary, label, [data-no-select]")) return;
    const subject = around(at, "[data-subject]");
    if (subject && String(getSelection?.() ?? "") === "") pick(wb, subject); // not while text is selected
  });
  wb.root.addEventListener("keydown", (event) => {
    const at = targetOf(event);
    if (at.closest("tbody") && walkRow(wb, event)) event.preventDefault();
    else if (at.matches("[data-subject]")) walkRows(wb, at, event);
    else if (at.matches(".image")) walkMarks(wb, at, event);
  });
}

/**
 * Marks the rows and dimensions that colleagues have selected, hold or moved last; called after every paint.
 * @param {Wb} wb
 * @param {Colleague[]} colleagues
 */
export function markColleagues(wb, colleagues) {
  if (!colleagues.length && !wb.root.querySelector(".theirs")) return;
  for (const element of all(wb.root, "[data-subject], .chip[data-chip]")) {
    const theirs = colleagues.find((colleague) => isTheirs(colleague, element));
    if (element.dataset.theirs === (theirs?.name ?? undefined)) continue;
    element.classList.toggle("theirs", Boolean(theirs));
    if (theirs) {
      element.dataset.theirs = theirs.name;
      element.style.setProperty("--theirs", theirs.colour);
      element.style.setProperty("--their-name", JSON.stringify(theirs.name)); // a CSS string, for the first cell of a row
    } else {
      delete element.dataset.theirs;
      element.style.removeProperty("--theirs");
      element.style.removeProperty("--their-name");
    }
  }
}

/**
 * @param {Colleague} colleague
 * @param {HTMLElement} element
 * @returns {boolean}
 */
function isTheirs({ selected, hand, moved }, element) {
  const { subject, chip } = element.dataset;
  if (chip) return [hand, moved].some((dim) => dim !== "" && chip.startsWith(`${dim}@`));
  return Boolean(subject && selected) && (namesPath(subject ?? "", selected) || namesPath(selected, subject ?? ""));
}
