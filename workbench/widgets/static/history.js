// @ts-check
// The plan history, newest first, and a comparison of two plans.

import { patchBlocks } from "./blocks.js";
import { all, h, keepingFocus, painter, patch } from "./dom.js";
import { copyText } from "./export_sheet.js";
import { drawGraph, laneX } from "./history_graph.js";
import { openMenu } from "./menus.js";
/** @import { Ask, MenuItem } from "./types/table_cells.d.ts" */
/** @import { Compared, HistoryState, PlanNode } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/**
 * @param {PlanNode} node
 * @returns {MenuItem[]}
 */
function planMenu(node) {
  /**
   * @param {string} label
   * @param {string} verb
   * @param {object} [fields]
   * @param {Ask | null} [ask]
   * @returns {MenuItem}
   */
  const item = (label, verb, fields = {}, ask = null) => ({ label, gesture: { verb, number: node.number, ...fields }, reason: null, ask });
  return [
    ...(node.here ? [] : [item("Go to this plan", "go")]),
    item(node.name ? "Rename…" : "Name…", "name_plan", {}, { label: "Name of this plan", value: node.name, verb: "Name" }),
    item(node.pinned ? "Unpin" : "Pin", "pin", { pinned: !node.pinned }),
    item(node.picked === "A" ? "Stop comparing" : "Compare", "compare_plans"),
  ];
}

const WAYS = { good: "down", bad: "up" };

const SIGNS = { good: "▾", bad: "▴" };

/**
 * @param {Wb} wb
 * @param {PlanNode} node
 * @returns {HTMLElement}
 */
function drawPlan(wb, node) {
  const more = h("button", {
    class: "more",
    type: "button",
    tabIndex: -1,
    ariaLabel: `Menu of plan ${node.number}`,
    ariaHasPopup: "menu",
    onclick: () => openMenu(wb, more, planMenu(node)),
  }, "⋯");
  /**
   * @param {string} verb
   * @param {object} [fields]
   */
  const act = (verb, fields = {}) => wb.send({ verb, number: node.number, ...fields });
  const pin = () => act("pin", { pinned: !node.pinned });
  const words = [
    `plan ${node.number}`,
    node.name,
    node.edit,
    node.here && "the present plan",
    node.pinned && "pinned",
    node.picked && `compared as ${node.picked}`,
  ].filter(Boolean);
  const go = h(
    "button",
    {
      class: "go",
      type: "button",
      tabIndex: node.here ? 0 : -1,
      title: node.title,
      ariaLabel: words.join(", "),
      ariaCurrent: node.here ? "step" : null,
      data: { focus: `plan-${node.number}`, plan: node.number },
      onclick: () => node.here || act("go"),
      onkeydown: (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        const key = event.ctrlKey || event.metaKey || event.altKey ? "" : event.key.toLowerCase();
        if (step) {
          const plans = all(wb.root, ".plans .go");
          plans[plans.indexOf(go) + step]?.focus();
        } else if (key === "p") pin();
        else if (key === "c") act("compare_plans");
        else if (key === "m") openMenu(wb, more, planMenu(node));
        else return;
        event.preventDefault();
      },
    },
    h("span", { class: "number" }, `${node.number}`),
    node.name ? h("b", {}, node.name) : null,
    h("span", { class: node.name ? "edit muted" : "edit" }, node.edit),
    node.here ? h("span", { class: "mark" }, "now") : null,
  );
  const figures = node.figures.map((figure) =>
    h(
      "span",
      {
        class: `glance ${figure.tone && WAYS[figure.tone]}`,
        title: `${figure.label}${figure.tone ? `, ${figure.tone === "good" ? "less" : "more"} than the plan before` : ""}`,
      },
      h("span", { class: "muted" }, figure.label),
      ` ${figure.text}`,
      figure.tone ? h("i", { ariaHidden: "true" }, SIGNS[figure.tone]) : null,
    )
  );
  return h(
    "li",
    { class: ["plan", node.here && "here", node.picked && "picked"].filter(Boolean).join(" ") },
    go,
    h("span", { class: "glances" }, ...figures),
    h(
      "span",
      { class: "acts" },
      h("button", {
        class: node.pinned ? "more pin on" : "more pin",
        type: "button",
        tabIndex: -1,
        ariaPressed: String(node.pinned),
        ariaLabel: `Pin plan ${node.number}`,
        title: node.pinned ? "Unpin" : "Pin",
        onclick: pin,
      }, node.pinned ? "★" : "☆"),
      h("button", {
        class: "btn small compare",
        type: "button",
        tabIndex: -1,
        ariaPressed: String(Boolean(node.picked)),
        ariaLabel: `Compare plan ${node.number}`,
        title: "Compare with another plan",
        onclick: () => act("compare_plans"),
      }, node.picked || "Compare"),
      more,
    ),
  );
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} head
 * @param {Compared} state
 */
function drawCompared(wb, head, state) {
  /**
   * @param {string} mark
   * @param {Compared["first"]} plan
   * @param {string | undefined} [extra]
   */
  const side = (mark, plan, extra) =>
    h(
      "span",
      { class: "side" },
      h("span", { class: "mark" }, mark),
      h("b", {}, plan.label),
      h("span", { class: "muted" }, extra ?? `plan ${plan.number}`),
    );
  head.replaceChildren(
    h("h2", {}, "Compared"),
    side("A", state.first),
    h("span", { class: "muted" }, "→"),
    side("B", state.second, state.follows ? "as it changes" : undefined),
    h("span", { class: "grow" }),
    h("button", { class: "btn small", type: "button", data: { focus: "swap" }, onclick: () => wb.send({ verb: "swap_plans" }) }, "Swap"),
    h("button", {
      class: "more close",
      type: "button",
      ariaLabel: "Stop comparing",
      title: "Stop comparing",
      data: { focus: "uncompare" },
      onclick: () => wb.send({ verb: "stop_comparing" }),
    }, "×"),
  );
}

/** @param {Wb} wb */
export function historySection(wb) {
  const list = h("ol", { class: "plans" });
  const graph = h("div", { class: "lines" });
  const note = h("div", { class: "note" });
  const tree = h("div", { class: "tree" }, h("div", { class: "rows" }, graph, list), note);
  const sides = h("div", { class: "sides" }),
    blocks = h("div", { class: "blocks", tabIndex: 0, role: "region", ariaLabel: "Two plans side by side" });
  const text = h("pre", {}),
    copy = h("button", { class: "btn small", type: "button", onclick: () => copyText(wb, text, text.textContent, copy) }, "Copy as text");
  const twin = h("details", {}, h("summary", {}, "As text"), copy, text);
  const compared = h("div", { class: "compared", hidden: true }, sides, blocks);
  const close = h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "Close the history",
    title: "Close",
    onclick: () => wb.send({ verb: "history", open: false }),
  }, "×");
  const section = h(
    "section",
    { class: "history", ariaLabel: "History", hidden: true },
    h(
      "div",
      { class: "legendline" },
      h("h2", {}, "History"),
      h("span", { class: "muted help" }, "Enter: restore plan. P: pin. C: compare. M: menu. An edit after an undo starts a branch."),
      close,
    ),
    h("div", { class: "inside" }, tree, compared),
  );
  /** @type {Paint<Pick<HistoryState, "nodes" | "lanes" | "note">>} */
  const paintTree = painter((state) =>
    keepingFocus(wb.root, list, () => {
      graph.replaceChildren(drawGraph(state.nodes, state.lanes));
      list.style.setProperty("--gutter", `${laneX(state.lanes - 1) + 14}px`);
      patch(list, state.nodes, (node) => drawPlan(wb, node));
      note.textContent = state.note;
      note.hidden = !state.note;
      if (!all(list, ".go").some((button) => button.tabIndex === 0)) list.querySelector(".go")?.setAttribute("tabindex", "0");
    })
  );
  /** @type {Paint<Compared | null>} */
  const paintCompared = painter((state) =>
    keepingFocus(wb.root, sides, () => {
      compared.hidden = !state;
      section.classList.toggle("comparing", Boolean(state));
      if (!state) return;
      drawCompared(wb, sides, state);
      patchBlocks(wb, blocks, state.blocks);
      text.textContent = state.text;
      blocks.append(twin);
    })
  );
  /** @param {HistoryState} state */
  const paint = (state) => {
    const opened = section.hidden && state.open;
    section.hidden = !state.open;
    if (!state.open) return;
    paintTree({ nodes: state.nodes, lanes: state.lanes, note: state.note });
    paintCompared(state.compared);
    if (opened) tree.scrollTop = 0;
  };
  return { section, paint };
}
