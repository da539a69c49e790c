// The tables of tensors and values: dimensions as chips that can be dropped on a mesh axis, folded layers, and the row of targets above.
// Such a chip is `lazy`: where it may go and what its menu offers is asked of Python when it is taken (`take`).

const SEARCHES = {
  tensors: ["Search tensors", "Search tensors: path, dimension, axis, role"],
  values: ["Search intermediate values", "Search values: scope, operation, dimension, line"],
};
const NAMELESS = ["", "_"];

// What a table's chip is to the hand. `source` is the axis that was gripped, or `*` for the dimension with all its axes.
function lazyChip(cell, dim, source = "*") {
  const { of, path } = cell;
  return { lazy: true, key: `${of} ${path} ${dim.place} ${source}`, of, path, rank: cell.chips.length, place: dim.place, source, dim: dim.label, rule: dim.dim, nameless: NAMELESS.includes(dim.dim), illegal: { rule: {}, only: {} } };
}

const takes = (chip, menu) => ({ verb: "take", menu, key: chip.key, of: chip.of, path: chip.path, rank: chip.rank, place: chip.place, source: chip.source });

function drawChips(wb, cell) {
  return h("span", { class: "dims" }, ...cell.chips.map((dim) => drawDim(wb, cell, dim)), cell.own ? drawOwn(wb, cell) : null, ...(cell.tags ?? []).map((tag) => drawTag(wb, tag)));
}

function drawDim(wb, cell, dim) {
  const chip = lazyChip(cell, dim);
  const axes = dim.axes.map((axis, i) => h("span", { class: "on", title: `Why on ${axis.name}?`, data: { c: axis.colour, source: axis.name, asks: `axis ${cell.of} ${dim.place} ${axis.name} ${cell.path}`, c0: axis.colour === null ? "" : null } }, dim.axes.length > 1 ? `${i + 1} ${axis.name}` : axis.name));
  const grip = h("button", {
    class: "grip", type: "button", tabIndex: -1, ariaPressed: "false", ariaLabel: `${dim.title}. Of ${cell.path}`, title: dim.title, ariaHasPopup: "menu",
    "aria-roledescription": "draggable dimension", data: { focus: chip.key, dim: dim.dim, place: dim.place },
  }, h("b", {}, dim.label), ...axes, ...drawMarks(dim.marks));
  const element = h("span", { class: "dim", data: { chip: chip.key, c: dim.axes[0]?.colour ?? null } }, grip);
  element.addEventListener("contextmenu", (event) => { event.preventDefault(); askMenu(wb, chip, grip); });
  makeDraggable(wb, element, grip, grip, (event) => {
    const axis = dim.axes.length > 1 && event?.target.closest?.(".on")?.dataset.source;
    return axis ? lazyChip(cell, dim, axis) : chip;
  });
  return element;
}

// It lies in its own way: said by which override or constraint, and taken back with a click.
function drawOwn(wb, cell) {
  const [what, pattern] = [cell.own.split(" ")[0], cell.own.slice(cell.own.indexOf(" ") + 1)];
  const back = cell.of === "value" ? "Free it again" : "By the rules again";
  return h("button", {
    class: "own", type: "button", tabIndex: -1, title: `${what} ${pattern}. ${back}`, ariaLabel: `${what} ${pattern}. ${back}`, data: { focus: `own ${cell.path}` },
    onclick: () => wb.send({ verb: "by_rules", of: cell.of, path: cell.path, rank: cell.chips.length, zone: "tables" }),
  }, cell.of === "value" ? `constrained ${cell.given}` : `own way ${cell.given}`.trim(), h("span", { ariaHidden: "true" }, " ×"));
}

// What is set by hand besides: open, late, tied, barred.
const drawMarks = (marks) => (marks ?? []).map((mark) => h("i", { class: "set", title: mark.title }, mark.text));

function drawTag(wb, tag) {
  return h("button", { class: "own", type: "button", tabIndex: -1, title: tag.title, ariaLabel: tag.title, data: { focus: `tag ${tag.title}` }, onclick: () => wb.send(tag.gesture) }, tag.label, h("span", { ariaHidden: "true" }, " ×"));
}

function drawFold(wb, fold, what) {
  return h("button", {
    class: "fold", type: "button", ariaExpanded: String(fold.open), ariaLabel: `${fold.open ? "Fold" : "Unfold"} ${what}`, tabIndex: -1, data: { focus: `fold ${fold.key}` },
    onclick: () => wb.send({ verb: "fold", key: fold.key }),
  }, fold.open ? "▾" : "▸");
}

function drawSection(wb, columns, row) {
  const { title, note } = row.section;
  const fold = drawFold(wb, row.fold, title);
  fold.tabIndex = 0;
  return h("tr", { class: "section" }, h("th", { colSpan: columns.length, scope: "rowgroup" }, fold, h("span", {}, title), h("span", { class: "muted" }, note)));
}

// Over the table: where a chip may be dropped without going up to the board, and what a drop changes.
function tensorBar(wb) {
  const bar = h("div", { class: "tensorbar" });
  const paint = painter(({ zones, tab, refusal }) => keepingFocus(wb.root, bar, () => {
    const targets = zones.map((zone) => h("span", {
      class: "droptarget", data: { axis: zone.axis, c: zone.colour },
      onclick: (event) => { if (wb.held) drop(wb, zone.axis, event.shiftKey); },
    }, h("b", {}, zone.title), zone.size ? h("span", { class: "muted" }, `×${zone.size}`) : null));
    const choice = (only, label, title) => h("button", {
      class: "choice", type: "button", ariaPressed: String(wb.only === only), title, data: { focus: `only ${only}` },
      onclick: () => { wb.only = only; bar.querySelectorAll(".choice").forEach((each) => { each.ariaPressed = String(each.dataset.focus === `only ${only}`); }); },
    }, label);
    bar.replaceChildren(
      h("div", { class: "line", role: "group", ariaLabel: "Targets" }, h("span", { class: "muted lead" }, "Drop on"), ...targets),
      h("div", { class: "line", role: "group", ariaLabel: "What a drop changes" }, h("span", { class: "muted lead" }, "A drop changes"),
        h("span", { class: "choices" }, choice(false, "the rule", "Every tensor with this dimension moves"), choice(true, tab === "values" ? "only this value" : "only this tensor", "An override of this tensor, or a constraint on this value. Alt while dropping does the other"))),
      refusal ? drawRefusal(wb, refusal) : "");
  }));
  return { bar, paint };
}

// The answer to `take`: marks for the chip in hand, or the menu that was asked for.
function takenUp(wb, taken) {
  if (!taken) return;
  const held = wb.held;
  if (held?.chip.lazy && held.chip.key === taken.key) {
    held.chip.illegal = taken.illegal;
    aim(wb);
  }
  if (wb.asked?.key === taken.key) {
    const { anchor, find } = wb.asked;
    wb.asked = null;
    const now = anchor.isConnected ? anchor : find ? find() : [...wb.card.querySelectorAll(".grip")].find((grip) => grip.dataset.focus === taken.key); // a repaint may have come first
    if (now) openMenu(wb, now, taken.menu, { zone: "tables" });
  }
}

function askMenu(wb, chip, anchor) {
  if (wb.menu?.anchor === anchor) { closeMenu(wb); return; }
  wb.asked = { key: chip.key, anchor };
  wb.send(takes(chip, true));
}

// Arrows within a table: left and right over a row's buttons, up and down to the row before and after.
function walkRow(wb, event) {
  const row = event.target.closest("tbody > tr");
  if (!row || wb.held) return false;
  const buttons = (tr) => [...tr.querySelectorAll(".fold, .grip, .own, .ask")];
  const all = buttons(row), now = all.indexOf(event.target);
  if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
    const next = now + (event.key === "ArrowRight" ? 1 : -1);
    if (next === -1 && now === 0 && row.dataset.subject) row.focus();
    else all[next]?.focus();
    return next >= -1 && all.length > 0;
  }
  const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
  if (!next || now < 0) return false;
  const others = buttons(next);
  (others[Math.min(now, others.length - 1)] ?? next).focus();
  return true;
}
