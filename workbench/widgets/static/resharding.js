// Cells that stand one under the other, words of the glossary within them, and edits that were tried with what each saves.

function drawStack(wb, cell) {
  return h("div", { class: "stack", title: cell.title ?? "" }, ...cell.stack.map((each) => h("div", {}, each.lead ? h("span", { class: "lead muted" }, each.lead, " ") : null, drawCell(wb, each), each.beside ? h("span", { class: "beside" }, each.beside) : null)));
}

function drawTerms(wb, cell) {
  return h("span", { class: `terms ${cell.tone ?? ""}` }, ...cell.terms.flatMap((term, i) => [i ? ", then " : null, termLabel(wb, term)]).filter(Boolean));
}

function drawRemedy(wb, remedy) {
  return h("div", { class: "remedy" },
    h("button", { class: "btn small", type: "button", title: remedy.title, data: { focus: `mend ${remedy.edit}` }, onclick: () => wb.send({ verb: "mend", edit: remedy.edit, zone: "tools" }) }, remedy.edit),
    h("span", { class: remedy.tone }, remedy.note),
    remedy.held ? h("span", { class: remedy.held_tone }, remedy.held) : null);
}

function drawRemedies(wb, cell) {
  const find = cell.find && h("button", {
    class: "btn small find", type: "button", ariaLabel: `${cell.find} for ${cell.about}`, title: "Each is planned and kept only if it saves", data: { focus: `find ${cell.key}` },
    onclick: () => { if (find.ariaBusy === "true") return; find.ariaBusy = "true"; find.textContent = "Trying…"; wb.send({ verb: "try_edits", key: cell.key, zone: "tools" }); },
  }, cell.find);
  const none = cell.remedies.length || find ? null : h("span", { class: "muted", tabIndex: -1, title: "Every edit that was tried sends more in all, or as much here", data: { focus: `find ${cell.key}` } }, "none is known");
  return h("div", { class: "remedies" }, ...cell.remedies.map((remedy) => drawRemedy(wb, remedy)), ...[find, none].filter(Boolean));
}
