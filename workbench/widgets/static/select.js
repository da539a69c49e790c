// Selection: whatever carries `data-subject` (a row, a mark of a picture) can be chosen, and is then marked in every view.
// A subject is the path of an argument, value or collective; `*` in it stands for the layer numbers of rows folded together.

const subjectPatterns = new Map();

// `path` is the subject, or one of the layers folded in it.
function namesPath(subject, path) {
  if (subject === path) return true;
  if (!subject.includes("*")) return false;
  if (!subjectPatterns.has(subject)) {
    const parts = subject.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
    subjectPatterns.set(subject, new RegExp(`^${parts.join("\\d+")}$`));
  }
  return subjectPatterns.get(subject).test(path);
}

function isChosen(wb, subject) {
  return Boolean(wb.selected && subject && (namesPath(subject, wb.selected) || namesPath(wb.selected, subject)));
}

// After every paint: what is chosen carries the class, and each table has one row where the tab key stops.
function markChosen(wb, selected) {
  const moved = wb.selected !== selected;
  wb.selected = selected;
  for (const each of wb.root.querySelectorAll("[data-subject]")) {
    const chosen = isChosen(wb, each.dataset.subject);
    if (chosen === each.classList.contains("chosen")) continue;
    each.classList.toggle("chosen", chosen);
    if (chosen) each.setAttribute("aria-current", "true");
    else each.removeAttribute("aria-current");
  }
  for (const body of wb.root.querySelectorAll("tbody")) {
    const rows = [...body.querySelectorAll(":scope > [data-subject]")];
    if (!rows.length || (!moved && rows.some((row) => row.tabIndex === 0))) continue;
    const stop = rows.find((row) => row.classList.contains("chosen")) ?? rows[0];
    for (const row of rows) row.tabIndex = row === stop ? 0 : -1;
  }
}

function selectSubject(wb, element) {
  const subject = element.dataset.subject;
  wb.say(isChosen(wb, subject) ? "Nothing selected." : `${subject} selected.`);
  wb.send({ verb: "select", path: isChosen(wb, subject) ? wb.selected : subject });
}

// Within a picture no mark takes the focus: the picture has it, and arrows walk over its marks.
function walkMarks(wb, image, event) {
  const marks = [...image.querySelectorAll("[data-subject], [data-opens]")];
  if (!marks.length) return;
  const now = marks.findIndex((mark) => mark.classList.contains("at"));
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter" && now >= 0) (marks[now].dataset.opens ? openMark : isBox(marks[now]) ? pickBox : selectSubject)(wb, marks[now]);
  else if (step) {
    const next = marks[(now + step + (now < 0 && step < 0 ? 1 : 0) + marks.length) % marks.length];
    marks[now]?.classList.remove("at");
    next.classList.add("at");
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
    wb.say(next.querySelector("title")?.textContent || next.dataset.subject || next.dataset.opens);
  } else return;
  event.preventDefault();
}

function walkRows(wb, row, event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter") selectSubject(wb, row);
  else if (step) {
    const rows = [...row.parentElement.querySelectorAll(":scope > [data-subject]")];
    const next = rows[rows.indexOf(row) + step];
    if (!next) return;
    row.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  } else return;
  event.preventDefault();
}

// One handler for the whole card: what is drawn later needs none of its own.
function makeSelectable(wb) {
  wb.root.addEventListener("click", (event) => {
    if (event.target.closest("button, input, select, a, summary, label, [data-no-select]")) return;
    const found = event.target.closest("[data-subject]");
    if (found && String(getSelection?.() ?? "") === "") (isBox(found) ? pickBox : selectSubject)(wb, found); // text marked with the mouse is no click
  });
  wb.root.addEventListener("keydown", (event) => {
    if (event.target.closest("tbody") && walkRow(wb, event)) event.preventDefault();
    else if (event.target.matches("[data-subject]")) walkRows(wb, event.target, event);
    else if (event.target.matches(".image")) walkMarks(wb, event.target, event);
  });
}
