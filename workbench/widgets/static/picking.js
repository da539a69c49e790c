// A whole value picked where it is seen: a box of a graph, a source line. Python answers with one short menu for all its dimensions.

const PICKED = ":is([data-tab=graph],[data-tab=propagation]) .image [data-subject]";

function askWhole(wb, of, path, anchor, rank = null) {
  if (wb.menu?.anchor === anchor) { closeMenu(wb); return; }
  wb.asked = { key: `${of} ${path}`, anchor, find: () => (of === "box" ? boxOf(wb, path) : wb.root.querySelector(`[data-focus="${CSS.escape(anchor.dataset.focus)}"]`)) };
  wb.send({ verb: "take", menu: true, key: wb.asked.key, of, path, rank, source: "*" });
}

const boxOf = (wb, path) => [...wb.root.querySelectorAll(PICKED)].find((mark) => mark.dataset.subject === path);

// A box is selected, so that its row is marked, and its menu comes beside it.
function pickBox(wb, mark) {
  const path = mark.dataset.subject;
  if (!isChosen(wb, path)) wb.send({ verb: "select", path });
  wb.say(`${path} selected.`);
  askWhole(wb, "box", path, mark);
}

const isBox = (mark) => mark.matches(PICKED);

function drawLine(wb, cell) {
  const pick = h("button", { class: "ask number linepick", type: "button", tabIndex: -1, title: `Annotate what ${cell.line} makes`, ariaLabel: `${cell.line}. Annotate what this line makes`, ariaHasPopup: "menu", data: { focus: `line ${cell.line} ${cell.rank}` }, onclick: () => askWhole(wb, "line", cell.line, pick, cell.rank) }, cell.text);
  return pick;
}
