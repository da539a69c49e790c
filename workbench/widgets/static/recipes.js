// @ts-check
// The recipe list: Python says what each recipe would change, or why it does not apply.

import { focusedBy, h, keepingFocus, painter, patch, withCode } from "./dom.js";
import { termLabel } from "./terms.js";
/** @import { RecipeAxis, RecipeRow, Recipes } from "./types/states.d.ts" */
/** @import { Kid, Paint, Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {RecipeRow} row
 * @param {RecipeAxis} axis
 * @param {number} place
 * @returns {HTMLElement}
 */
function drawRecipeAxis(wb, row, axis, place) {
  const options = axis.options.map((option) => h("option", { value: option.name, selected: option.name === axis.name }, option.label));
  return h(
    "select",
    {
      class: "field axis",
      ariaLabel: `mesh axis of ${row.title}${row.axes.length > 1 ? `, ${place + 1} of ${row.axes.length}` : ""}`,
      data: { c: axis.colour, focus: `axis ${row.name} ${place}` },
      onchange: (event) =>
        wb.send({ verb: "recipe_axis", name: row.name, place, axis: /** @type {HTMLSelectElement} */ (event.target).value, zone: "tools" }),
    },
    ...(axis.name ? [] : [h("option", { value: "", selected: true, disabled: true }, "choose axis")]),
    ...options,
  );
}

const FEW_EDITS = 2;

/**
 * @param {RecipeRow} row
 * @returns {Kid[]}
 */
function drawRecipeEdits(row) {
  const shown = row.edits.length > FEW_EDITS + 1 ? row.edits.slice(0, FEW_EDITS) : row.edits;
  const rest = row.edits.slice(shown.length);
  /** @param {string[]} edits */
  const lines = (edits) => h("ul", { class: "edits mono" }, ...edits.map((edit) => h("li", {}, edit)));
  return [
    lines(shown),
    rest.length ? h("details", {}, h("summary", {}, `and ${rest.length} edits more`), lines(rest)) : null,
    row.reason ? h("p", { class: "leaves" }, ...withCode(row.reason)) : null,
  ];
}

/**
 * @param {Wb} wb
 * @param {RecipeRow} row
 * @returns {HTMLElement}
 */
function drawRecipe(wb, row) {
  const applies = row.state === "applies";
  const spoken = {
    applies: `Apply ${row.title}`,
    holds: `${row.title}: already applied`,
    barred: `${row.title} does not apply: ${row.reason}`,
  }[row.state];
  const apply = h("button", { // `aria-disabled` rather than `disabled` keeps the focus and lets the reason be read
    class: "btn small apply",
    type: "button",
    ariaDisabled: String(!applies),
    ariaLabel: spoken,
    data: { focus: `recipe ${row.name}` },
    onclick: () => {
      if (applies) wb.send({ verb: "recipe", name: row.name, axes: row.given, zone: "tools" });
    },
  }, row.state === "holds" ? "✓ applied" : "Apply");
  const axes = row.axes.map((axis, place) => drawRecipeAxis(wb, row, axis, place));
  const effects = applies ? drawRecipeEdits(row) : row.state === "holds" ? [] : [
    h("p", {}, ...withCode(row.reason)),
    row.ways_out.length ? h("p", { class: "ways" }, "Try: ", ...withCode(row.ways_out.join("; ")), ".") : null,
  ];
  return h(
    "li",
    { class: `recipe ${row.state}`, data: { recipe: row.name } },
    h(
      "div",
      { class: "name" },
      h("b", {}, row.title),
      axes.length ? h("span", { class: "muted" }, "over") : null,
      ...axes,
      h("span", { class: "grow" }),
      apply,
    ),
    h("p", { class: "about muted" }, row.about),
    h("div", { class: "does" }, ...effects.filter(Boolean)),
  );
}

/** @param {Wb} wb */
export function recipesSection(wb) {
  /** @param {boolean} open */
  const toggle = (open) => wb.send({ verb: "recipes", open });
  const button = h("button", {
    class: "btn small",
    type: "button",
    ariaExpanded: "false",
    title: "Standard layouts, applied as one edit",
    data: { focus: "recipes", verb: "recipes" },
    onclick: () => toggle(Boolean(section.hidden)),
  }, "Recipes");
  const hide = () => {
    toggle(false);
    button.focus({ preventScroll: true });
  };
  const title = h("h3", { tabIndex: -1 }, termLabel(wb, "Recipes")),
    list = h("ul", { class: "list" }),
    problem = h("p", { class: "bad", hidden: true });
  const close = h("button", { class: "more close", type: "button", ariaLabel: "Close the recipes", title: "Close", onclick: hide }, "×");
  const section = h(
    "section",
    { class: "recipes", ariaLabel: "Recipes", hidden: true },
    h(
      "header",
      {},
      title,
      h("span", { class: "muted" }, "A recipe is a list of edits, applied as one step (undo to go back)."),
      close,
    ),
    problem,
    list,
  );
  section.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      hide();
    }
  });
  /** @type {Paint<Recipes | null>} */
  const paint = painter((state) =>
    keepingFocus(wb.root, list, () => {
      const opened = section.hidden && state;
      section.hidden = !state;
      button.ariaExpanded = String(Boolean(state));
      if (!state) return;
      problem.hidden = !state.problem;
      problem.textContent = state.problem;
      patch(list, state.rows, (row) => drawRecipe(wb, row));
      if (opened && focusedBy(wb.root) === button) title.focus({ preventScroll: true });
    })
  );
  return { section, button, paint };
}
