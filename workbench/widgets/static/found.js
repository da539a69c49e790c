// @ts-check
// Search results: rows that preview and apply a plan, and the card of the selected plan.

import { h, keepingFocus, one, targetOf, withCode } from "./dom.js";
/** @import { Act } from "./types/table_cells.d.ts" */
/** @import { FoundCard, FoundRows, FoundState } from "./types/find.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {Act} act
 * @param {string} kind
 */
export const actOf = (wb, act, kind = "btn small") =>
  h("button", {
    class: kind,
    type: "button",
    title: act.title ?? "",
    data: { focus: act.focus ?? `act ${act.label}` },
    onclick: () => wb.send(act.gesture),
  }, ...withCode(act.label));

/**
 * Paints the card of the selected plan, or the result rows.
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {FoundState} state
 */
export function paintFound(wb, place, state) {
  place.classList.toggle("card", Boolean(state.card));
  if (state.card) paintCard(wb, place, state.card);
  else if (state.rows) paintRows(wb, place, state.rows);
}

/** The rows behind each preview. @type {WeakMap<HTMLElement, { rows: FoundRows; key: string }>} */
const shownIn = new WeakMap();

/**
 * The plan number of a row, from its button.
 * @param {Event} event
 */
const keyAt = (event) => one(targetOf(event).closest("tr") ?? document.createElement("tr"), "button")?.dataset.focus?.split(" ")[1] ?? "";

/**
 * Previews the hovered or focused plan above the rows; a click applies it.
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {FoundRows} rows
 */
function paintRows(wb, place, rows) {
  const shown = shownIn.get(place);
  shownIn.set(place, { rows, key: shown?.key ?? "" });
  if (!shown) listenToRows(wb, place);
  drawPreview(place);
}

/** @param {HTMLElement} place */
function drawPreview(place) {
  const { rows, key } = shownIn.get(place) ?? {};
  const preview = rows?.previews[key ?? ""];
  place.replaceChildren(
    ...(preview
      ? [h("b", {}, preview.title), h("div", { class: "muted" }, preview.text), h("div", { class: "changes" }, preview.changes)]
      : [h("div", { class: "muted" }, rows?.hint)]),
  );
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} place
 */
function listenToRows(wb, place) {
  const body = one(/** @type {HTMLElement} */ (place.parentElement), "tbody");
  /** @param {string} key */
  const show = (key) => {
    const shown = shownIn.get(place);
    if (!shown || shown.key === key) return;
    shownIn.set(place, { ...shown, key });
    drawPreview(place);
  };
  for (const name of ["pointerover", "focusin"]) body?.addEventListener(name, (event) => show(keyAt(event)));
  for (const name of ["pointerleave", "focusout"]) body?.addEventListener(name, () => show(""));
  body?.addEventListener("click", (event) => {
    const gesture = shownIn.get(place)?.rows.gestures[keyAt(event)];
    if (gesture && !targetOf(event).closest("button")) wb.send(gesture);
  });
}

/**
 * The selected plan, its actions and the plan it is compared with.
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {FoundCard} card
 */
function paintCard(wb, place, card) {
  const [take, ...rest] = card.acts, than = card.than;
  keepingFocus(wb.root, place, () =>
    place.replaceChildren(
      h(
        "div",
        { class: "name" },
        h("b", {}, card.title),
        h("span", { class: "muted" }, card.text),
        ...(card.present ? [h("span", { class: "good" }, "✓ on the board")] : []),
      ),
      ...(card.parts ? [h("div", { class: "parts muted" }, card.parts)] : []),
      h(
        "div",
        { class: "buttons" },
        actOf(wb, take, card.present ? "btn" : "btn primary"),
        ...rest.map((act) => actOf(wb, act, "btn")),
        than.options.length
          ? h(
            "label",
            { class: "against" },
            h("span", { class: "muted" }, than.label),
            h(
              "select",
              {
                class: "field",
                data: { focus: "found than" },
                onchange: (event) =>
                  wb.send({ verb: than.verb, plan: than.plan, than: /** @type {HTMLSelectElement} */ (event.target).value }),
              },
              h("option", { value: "", selected: !than.value }, "its nearest rival"),
              ...than.options.map((option) => h("option", { value: option.name, selected: option.name === than.value }, option.label)),
            ),
          )
          : null,
      ),
      ...(card.waiting
        ? [h("div", { class: "waiting", role: "status" }, card.waiting, h("div", { class: "progress unknown" }, h("i")))]
        : []),
    ));
}
