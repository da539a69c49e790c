// @ts-check
// Table rows, and a renderer for each kind of cell.

import { h, withCode } from "./dom.js";
import { askWhy, drawAsked, termLabel } from "./terms.js";
/** @import { ActsCell, Cell, Column, Fold, PairCell, RemediesCell, Remedy, Row, StackCell, TermsCell } from "./types/table_cells.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {Cell} cell
 * @returns {Node | string}
 */
export function drawCell(wb, cell) {
  if (typeof cell === "string") return cell;
  if ("why" in cell && cell.why) return drawAsked(wb, cell);
  if ("line" in cell) return wb.drawers?.line(wb, cell) ?? cell.text;
  if ("chips" in cell) return wb.drawers?.chips(wb, cell) ?? "";
  if ("dims" in cell) {
    return h(
      "span",
      {},
      ...cell.dims.map((dim) =>
        h(
          "span",
          { class: "tag", title: dim.title, data: { c: dim.colours[0] } },
          dim.name,
          ...dim.colours.slice(1).map((colour) => h("i", { class: "second", data: { c: colour } })),
        )
      ),
    );
  }
  if ("acts" in cell) return drawActs(wb, cell);
  if ("stack" in cell) return drawStack(wb, cell);
  if ("terms" in cell) return drawTerms(wb, cell);
  if ("remedies" in cell) return drawRemedies(wb, cell);
  if ("pair" in cell) return drawPair(cell);
  if ("axes" in cell) return h("span", {}, ...cell.axes.map((axis) => h("span", { class: "tag", data: { c: axis.colour } }, axis.name)));
  if ("edits" in cell) {
    return h(
      "span",
      {},
      ...cell.edits.map((edit) => h("button", { class: "btn", type: "button", onclick: () => wb.send({ verb: "mend", edit }) }, edit)),
    );
  }
  if ("share" in cell) {
    const bar = h("i", { data: { shade: cell.shade } });
    bar.style.width = `${Math.max(1, cell.share * 110)}px`;
    return h("span", { class: "share" }, bar, cell.text);
  }
  if ("path" in cell && cell.path) {
    return h(
      "span",
      { class: "path", title: cell.title ?? cell.path },
      h("bdi", {}, cell.path, cell.count ? h("span", { class: "count" }, cell.count) : null),
    );
  }
  const text = "text" in cell ? cell.text : "";
  return h("span", { class: cell.tone ?? "", title: cell.title ?? "" }, ...(cell.wrap ? withCode(text) : [text]));
}

/**
 * @param {Wb} wb
 * @param {StackCell} cell
 * @returns {HTMLElement}
 */
function drawStack(wb, cell) {
  return h(
    "div",
    { class: "stack", title: cell.title ?? "" },
    ...cell.stack.map((part) => {
      const { lead, beside } = typeof part === "string" ? {} : part;
      return h(
        "div",
        {},
        lead ? h("span", { class: "lead muted" }, lead, " ") : null,
        drawCell(wb, part),
        beside ? h("span", { class: "beside" }, beside) : null,
      );
    }),
  );
}

/**
 * @param {Wb} wb
 * @param {TermsCell} cell
 * @returns {HTMLElement}
 */
function drawTerms(wb, cell) {
  return h(
    "span",
    { class: `terms ${cell.tone ?? ""}` },
    ...cell.terms.flatMap((term, i) => [i ? ", then " : null, termLabel(wb, term)]).filter(Boolean),
  );
}

/**
 * @param {Wb} wb
 * @param {ActsCell} cell
 * @returns {HTMLElement}
 */
function drawActs(wb, cell) {
  /** @param {ActsCell["acts"][number]} action */
  const act = (action) =>
    h("button", {
      class: "btn small",
      type: "button",
      title: action.title ?? "",
      data: { focus: action.focus ?? `act ${action.label}` },
      onclick: (event) => {
        if (action.gesture.verb === "why") {
          askWhy(wb, action.gesture.of ?? "", wb.asker?.focus ?? /** @type {HTMLElement} */ (event.currentTarget));
        } else wb.send(action.gesture);
      },
    }, action.label);
  return h("span", { class: "acts" }, cell.text ? h("span", {}, ...withCode(cell.text)) : null, ...cell.acts.map(act));
}

/**
 * @param {Wb} wb
 * @param {Remedy} remedy
 * @returns {HTMLElement}
 */
function drawRemedy(wb, remedy) {
  return h(
    "div",
    { class: "remedy" },
    h("button", {
      class: "btn small",
      type: "button",
      title: remedy.title,
      data: { focus: `mend ${remedy.edit}` },
      onclick: () => wb.send({ verb: "mend", edit: remedy.edit, zone: "tools" }),
    }, remedy.edit),
    h("span", { class: remedy.tone }, remedy.note),
    remedy.held ? h("span", { class: remedy.held_tone }, remedy.held) : null,
  );
}

/**
 * @param {Wb} wb
 * @param {RemediesCell} cell
 * @returns {HTMLElement}
 */
function drawRemedies(wb, cell) {
  const find = !cell.find ? null : h("button", {
    class: "btn small find",
    type: "button",
    ariaLabel: `${cell.find} for ${cell.about}`,
    title: "Each edit is planned; only edits that reduce the bytes sent are listed",
    data: { focus: `find ${cell.key}` },
    onclick: () => {
      if (!find || find.ariaBusy === "true") return;
      find.ariaBusy = "true";
      find.textContent = "Trying…";
      wb.send({ verb: "try_edits", key: cell.key, zone: "tools" });
    },
  }, cell.find);
  const none = cell.remedies.length || find ? null : h("span", {
    class: "muted",
    tabIndex: -1,
    title: "Every tested edit sends more in total, or as much here",
    data: { focus: `find ${cell.key}` },
  }, "no fix found");
  return h("div", { class: "remedies" }, ...cell.remedies.map((remedy) => drawRemedy(wb, remedy)), find, none);
}

/**
 * @param {PairCell} cell
 * @returns {HTMLElement}
 */
function drawPair(cell) {
  /**
   * @param {number} share
   * @param {string} name
   */
  const bar = (share, name) => {
    const slice = h("i", { class: name });
    slice.style.width = `${Math.max(share * 100, share ? 2 : 0)}%`;
    return slice;
  };
  return h("span", { class: `pair ${cell.tone}`, ariaHidden: "true" }, bar(cell.pair[0], "was"), bar(cell.pair[1], "is"));
}

/**
 * @param {Wb} wb
 * @param {Fold} fold
 * @param {string} label
 * @returns {HTMLElement}
 */
function drawFold(wb, fold, label) {
  return h("button", {
    class: "fold",
    type: "button",
    ariaExpanded: String(fold.open),
    ariaLabel: `${fold.open ? "Fold" : "Unfold"} ${label}`,
    tabIndex: -1,
    data: { focus: `fold ${fold.key}` },
    onclick: () => wb.send({ verb: "fold", key: fold.key }),
  }, fold.open ? "▾" : "▸");
}

/**
 * @param {Wb} wb
 * @param {Column[]} columns
 * @param {Row} row
 * @param {{ title: string; note: string }} cell
 * @returns {HTMLElement}
 */
function drawSection(wb, columns, row, { title, note }) {
  const fold = drawFold(wb, row.fold ?? { key: row.key, open: true }, title);
  fold.tabIndex = 0;
  return h(
    "tr",
    { class: "section" },
    h("th", { colSpan: columns.length, scope: "rowgroup" }, fold, h("span", {}, title), h("span", { class: "muted" }, note)),
  );
}

/**
 * @param {Wb} wb
 * @param {Column[]} columns
 * @param {Row} row
 * @returns {HTMLElement}
 */
export function drawRow(wb, columns, row) {
  if (row.section) return drawSection(wb, columns, row, row.section);
  return h(
    "tr",
    { class: row.tone ? `marked ${row.tone}-row` : "", data: { subject: row.subject || null } },
    ...row.cells.map((cell, i) =>
      h(
        "td",
        {
          class: [
            columns[i]?.number ? "n" : "",
            typeof cell === "object" && cell.wrap ? "wrap" : "",
            typeof cell === "object" && "chips" in cell ? "chipped" : "",
            i || !("fold" in row) ? "" : row.level ? `level${row.level}` : row.fold ? "" : "foldless",
          ].join(" ").trim(),
          data: { label: i ? columns[i]?.label : null },
        },
        i || !row.fold ? null : drawFold(wb, row.fold, typeof cell === "object" && "path" in cell ? cell.path : ""),
        drawCell(wb, cell),
      )
    ),
  );
}
