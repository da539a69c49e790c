// Figures, tabs and tables: everything that only shows.

function drawShare(part) {
  const bit = h("i", { title: part.title, data: { shade: part.shade } });
  bit.style.width = `${part.share * 100}%`;
  return bit;
}

function drawBar(figure) {
  const limit = figure.limit && h("i", { class: "limit", title: figure.limit.text });
  if (limit) limit.style.left = `${figure.limit.share * 100}%`;
  const all = figure.apart ? [...figure.parts, figure.apart] : figure.parts;
  return [
    h("div", { class: "bars", role: "img", ariaLabel: all.map((part) => part.title).join("; ") },
      h("div", { class: `bar ${figure.tone}` }, ...figure.parts.map(drawShare)), limit,
      figure.apart ? h("div", { class: "bar apart" }, drawShare(figure.apart)) : null),
    h("div", { class: "legend" }, ...all.map((part) => h("span", { title: part.title }, h("i", { data: { shade: part.shade } }), `${part.role} `, h("b", {}, part.text)))),
  ];
}

// Which tier a figure is of: a sign for the eye, the word for a screen reader and for a hand that rests on it.
function drawMark(mark) {
  return mark?.key ? h("span", { class: "origin", role: "img", ariaLabel: mark.label, title: mark.title, data: { tier: mark.key, settles: mark.settles || null } }) : null;
}

// How the figures stand: planned, on their way, as XLA's partitioner has them, or why not.
function drawStanding(wb, standing) {
  const sign = drawMark(standing.mark);
  sign.ariaHidden = "true"; // the word stands beside it
  return [sign, h("span", { title: standing.mark.title }, termLabel(wb, standing.mark.label)), h("span", { class: "how" }, standing.text)];
}

function drawFigure(wb, figure) {
  const delta = figure.delta && h("span", { class: `delta ${figure.delta.tone}` }, figure.delta.text);
  const wide = figure.parts.length > 0;
  const range = figure.range && h("span", { class: "range", title: "Nine of ten true figures lie between these, as far as programs of others tell." }, figure.range);
  return h("div", { class: wide ? "figure wide" : "figure", title: wide ? "" : figure.title, data: { figure: figure.key } },
    h("div", { class: "label", title: figure.title }, termLabel(wb, figure.label, figure.key), drawAsk(wb, `figure ${figure.key}`, figure.label)),
    h("div", { class: `value ${figure.tone}`, title: figure.title }, h("span", {}, figure.text), drawMark(figure.tier), wide ? range : null, wide ? delta : null, wide && figure.note ? h("span", { class: `beside ${figure.tone}` }, figure.note) : null),
    wide ? null : h("div", { class: "sub" }, range, range && h("br"), delta, delta && " ", figure.note),
    figure.counted ? h("div", { class: "changes" }, ...figure.changes.map((change) => h("span", { class: change.tone }, change.text))) : null,
    ...(wide ? drawBar(figure) : []),
    ...figure.tiers.map((tier) => h("div", { class: tier.stale ? "tier stale" : "tier", title: tier.stale }, drawMark(tier.mark), `${tier.label} `, h("b", {}, tier.text), tier.note ? h("span", {}, ` ${tier.note}`) : null)));
}

// Figures that settle by themselves may take less room than before: what lies below stays where a hand is about to take it. Where plans are
// compiled by themselves, what the compiler says comes and goes with every edit, and keeps its room.
function keepTall(figures, seq, comesAndGoes) {
  const stays = (figures.answered === seq || comesAndGoes) && figures.across === figures.offsetWidth;
  figures.style.minHeight = stays ? `${figures.offsetHeight}px` : "";
  Object.assign(figures, { answered: seq, across: figures.offsetWidth });
}

function drawAlarm(wb, alarm) {
  return h("div", { class: "alarm", role: "alert" }, h("b", { class: "bad" }, `${alarm.kind} `), h("span", {}, ...withCode(alarm.message)), " ",
    ...alarm.edits.map((edit) => h("button", { class: "btn small", type: "button", onclick: () => wb.send({ verb: "mend", edit }) }, edit)));
}

const LONG_LAYOUT = 320; // characters, from which a layout is cut to a few lines: a recipe may say two dozen things

function drawLayout(wb, layout) {
  const text = h("div", { class: "mono layout" }, layout);
  if (layout.length < LONG_LAYOUT) return [text];
  const show = () => {
    text.classList.toggle("cut", !wb.wholeLayout);
    turn.ariaExpanded = String(Boolean(wb.wholeLayout));
    turn.textContent = wb.wholeLayout ? "Less of the layout" : "All of the layout";
  };
  const turn = h("button", { class: "whole", type: "button", data: { focus: "layout" }, onclick: () => { wb.wholeLayout = !wb.wholeLayout; show(); } });
  show();
  return [text, turn];
}

function drawHead(wb, parent, state) {
  const tool = (verb, sign, title) => h("button", {
    class: "btn icon", type: "button", disabled: title === null, title: title ?? verb, ariaLabel: title ?? verb, data: { verb, focus: verb },
    onclick: () => wb.send({ verb }),
  }, sign);
  parent.replaceChildren(
    h("div", { class: "names" },
      h("div", { class: "line" }, h("h1", {}, state.name), h("span", { class: "mono mesh" }, `${state.mesh}`), h("span", { class: "muted" }, state.devices)),
      ...drawLayout(wb, state.layout)),
    h("div", { class: "tools" }, tool("undo", "↶", state.undo), tool("redo", "↷", state.redo), ...headTools(wb, state.tools), ...helpTools(wb)),
    drawHardware(wb, state.hardware, state.refusal));
}

function drawCell(wb, cell) {
  if (typeof cell === "string") return cell;
  if (cell.why) return drawAsked(wb, cell);
  if (cell.line) return drawLine(wb, cell);
  if (cell.chips) return drawChips(wb, cell);
  if (cell.dims) {
    return h("span", {}, ...cell.dims.map((dim) => h("span", { class: "tag", title: dim.title, data: { c: dim.colours[0] } }, dim.name,
      ...dim.colours.slice(1).map((colour) => h("i", { class: "second", data: { c: colour } })))));
  }
  if (cell.acts) return drawActs(wb, cell);
  if (cell.stack) return drawStack(wb, cell);
  if (cell.terms) return drawTerms(wb, cell);
  if (cell.remedies) return drawRemedies(wb, cell);
  if (cell.pair) return drawPair(cell);
  if (cell.axes) return h("span", {}, ...cell.axes.map((axis) => h("span", { class: "tag", data: { c: axis.colour } }, axis.name)));
  if (cell.edits) {
    return h("span", {}, ...cell.edits.map((edit) => h("button", { class: "btn", type: "button", onclick: () => wb.send({ verb: "mend", edit }) }, edit)));
  }
  if (cell.share !== undefined) {
    const bar = h("i", { data: { shade: cell.shade } });
    bar.style.width = `${Math.max(1, cell.share * 110)}px`;
    return h("span", { class: "share" }, bar, cell.text);
  }
  if (cell.path) return h("span", { class: "path", title: cell.title ?? cell.path }, h("bdi", {}, cell.path, cell.count ? h("span", { class: "count" }, cell.count) : null));
  return h("span", { class: cell.tone ?? "", title: cell.title ?? "" }, ...(cell.wrap ? withCode(cell.text) : [cell.text]));
}

function drawRow(wb, columns, row) {
  if (row.section) return drawSection(wb, columns, row);
  return h("tr", { class: row.tone ? `marked ${row.tone}-row` : "", data: { subject: row.subject || null } }, ...row.cells.map((cell, i) => h("td", { class: [columns[i]?.number ? "n" : "", cell.wrap ? "wrap" : "", cell.chips ? "chipped" : "", i || !("fold" in row) ? "" : row.level ? `level${row.level}` : row.fold ? "" : "foldless"].join(" ").trim(), data: { label: i ? columns[i]?.label : null } },
    i || !row.fold ? null : drawFold(wb, row.fold, cell.path), drawCell(wb, cell))));
}

// The tables of `blocks`; a table that is already there under the same title and columns keeps its unchanged rows.
function patchBlocks(wb, parent, blocks) {
  const heads = blocks.map((block) => JSON.stringify([block.title, block.columns, Boolean(block.picture), Boolean(block.replay), Boolean(block.stages), canSort(block)]));
  parent.blocks = blocks;
  if (JSON.stringify(parent.heads) !== JSON.stringify(heads)) {
    parent.heads = heads;
    parent.replaceChildren(...blocks.map((block) => h("div", { class: "block" },
      block.title && h("h3", {}, block.title),
      block.replay ? h("div", { class: "replay" }) : null,
      block.picture ? h("div", { class: "picture" }) : null,
      block.stages ? h("div", { class: "pipeline" }) : null,
      block.columns.length ? h("table", {}, h("thead", {}, h("tr", {}, ...block.columns.map((c, i) => drawColumn(wb, block, c, i, heads[blocks.indexOf(block)], () => patchBlocks(wb, parent, parent.blocks))))), h("tbody")) : null,
      h("div", { class: "note" }))));
  }
  blocks.forEach((block, i) => {
    const place = parent.children[i];
    const body = place.querySelector("tbody");
    if (body) patch(body, sortedRows(wb, block, heads[i]), (row) => drawRow(wb, block.columns, row));
    if (body) markSorted(wb, place, heads[i]);
    if (block.replay) paintReplay(wb, place.querySelector(".replay"), block.replay);
    if (block.stages) paintPipeline(wb, place.querySelector(".pipeline"), block.stages);
    if (block.picture) paintPicture(wb, place.querySelector(".picture"), block.picture);
    const note = place.querySelector(".note");
    note.textContent = block.note;
    note.hidden = !block.note;
  });
}

function drawTabs(wb, parent, tabs) {
  const open = (tab) => wb.send({ verb: "open", tab });
  const step = (event, by) => { event.preventDefault(); const i = tabs.findIndex((tab) => tab.open); wb.focusTab = true; open(tabs[(i + by + tabs.length) % tabs.length].key); };
  const scrolled = parent.scrollLeft;
  parent.replaceChildren(...tabs.map((tab) => h("button", {
    class: "tab", type: "button", role: "tab", ariaSelected: String(tab.open), tabIndex: tab.open ? 0 : -1, data: { tab: tab.key, focus: `tab-${tab.key}` },
    onclick: () => open(tab.key),
    onkeydown: (e) => { if (e.key === "ArrowRight") step(e, 1); else if (e.key === "ArrowLeft") step(e, -1); },
  }, tab.label, tab.badge && h("span", { class: "badge" }, tab.badge))));
  const chosen = parent.querySelector("[aria-selected=true]");
  if (wb.focusTab) chosen?.focus({ preventScroll: true });
  wb.focusTab = false;
  parent.scrollLeft = scrolled;
  if (chosen) showTab(parent, chosen);
}

// The chosen tab, into the part of the strip that is seen: it may be wider than the card.
function showTab(strip, tab) {
  const frame = strip.getBoundingClientRect(), at = tab.getBoundingClientRect();
  if (at.left < frame.left || at.right > frame.right) strip.scrollLeft += at.left - frame.left - (frame.width - at.width) / 2;
}

function tablesSection(wb) {
  const tabs = h("div", { class: "tabs", role: "tablist", ariaLabel: "Tables" });
  const blocks = h("div");
  let timer = 0;
  const search = h("input", { class: "field search", type: "search", hidden: true,
    oninput: () => { clearTimeout(timer); timer = setTimeout(() => wb.send({ verb: "open", tab: section.dataset.tab, search: search.value }), 150); } });
  const targets = tensorBar(wb);
  const section = h("section", { class: "tables" }, tabs, h("div", { class: "finding" }, search), targets.bar, h("div", { class: "scroll", role: "tabpanel", tabIndex: 0, ariaLabel: "Table" }, blocks));
  const paintTabs = painter((state) => keepingFocus(wb.root, tabs, () => drawTabs(wb, tabs, state)));
  const paintTable = painter((state) => {
    const [label, placeholder] = SEARCHES[state.tab] ?? ["", ""];
    search.hidden = state.search === null;
    targets.bar.classList.toggle("bare", search.hidden); // other tabs show in it what was refused alone
    if (section.dataset.tab !== state.tab) { search.value = state.search ?? ""; Object.assign(search, { placeholder, ariaLabel: label }); }
    const turned = section.dataset.tab !== state.tab;
    section.dataset.tab = state.tab;
    keepingFocus(wb.root, blocks, () => patchBlocks(wb, blocks, state.blocks));
    if (turned) blocks.parentElement.scrollTop = 0; // another table begins at its top
  });
  return { section, paintTabs, paintTable, paintTargets: targets.paint };
}
