// @ts-check
// The tab Find: its form, how far the search is, what clashes; and the card of the plan that was chosen.

import { h, keepingFocus, painter, withCode } from "./dom.js";
import { termLabel } from "./terms.js";
import { speaker } from "./work.js";
/** @import { Act } from "./types/table_cells.d.ts" */
/** @import { FindField, FindState, FoundCard } from "./types/find.d.ts" */
/** @import { Gesture, Paint, Wb } from "./types/board_context.d.ts" */

/** The form of a board: it stays, with what was typed, while what stands under it is drawn anew. @type {WeakMap<HTMLElement, ReturnType<typeof findOf>>} */
const findIn = new WeakMap();

/**
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {FindState} state
 */
export function paintFind(wb, place, state) {
  let find = findIn.get(wb.root);
  if (!find) {
    find = findOf(wb);
    findIn.set(wb.root, find);
    wb.expect({ verb: "find" }); // its process starts while the form is filled in
  }
  if (place.firstChild !== find.element) place.replaceChildren(find.element);
  find.paint(state);
}

/**
 * The control of a field; what the user typed stays until Python says another value.
 * @param {FindField} field
 */
function controlOf(field) {
  const about = { name: field.name, ariaLabel: field.label, title: field.title, data: { focus: `find ${field.name}` } };
  if (field.kind === "check") return h("input", { ...about, type: "checkbox" });
  if (field.kind === "select") return h("select", { ...about, class: "field" });
  const input = h("input", { ...about, class: "field", placeholder: field.hint, autocomplete: "off", spellcheck: false });
  input.style.width = `calc(${field.width}ch + 18px)`;
  return input;
}

/**
 * @param {HTMLInputElement | HTMLSelectElement} control
 * @param {FindField} field
 */
function setValue(control, field) {
  if (control instanceof HTMLInputElement && control.type === "checkbox") control.checked = Boolean(field.value);
  else control.value = String(field.value);
}

/** @param {FindField} field */
function fieldOf(field) {
  const control = controlOf(field);
  const label = field.kind === "check"
    ? h("label", { class: "find-field check", title: field.title }, control, h("span", {}, field.label))
    : h("label", { class: "find-field", title: field.title }, h("span", { class: "caption" }, field.label), control);
  let options = "", value = "";
  /** @param {FindField} now */
  const paint = (now) => {
    const offered = JSON.stringify(now.options), given = JSON.stringify(now.value);
    if (offered !== options && control instanceof HTMLSelectElement) {
      const chosen = control.value;
      control.replaceChildren(...now.options.map((each) => h("option", { value: each.name }, each.label)));
      control.value = chosen;
    }
    if (given !== value) setValue(control, now);
    if (control instanceof HTMLInputElement && control.placeholder !== now.hint) control.placeholder = now.hint;
    [options, value] = [offered, given];
  };
  const read = () => control instanceof HTMLInputElement && control.type === "checkbox" ? control.checked : control.value;
  paint(field);
  return { name: field.name, label, paint, read };
}

/**
 * @param {Wb} wb
 * @param {Act} each
 * @param {string} kind
 */
const actOf = (wb, each, kind = "btn small") =>
  h("button", {
    class: kind,
    type: "button",
    title: each.title ?? "",
    data: { focus: each.focus ?? `act ${each.label}` },
    onclick: () => wb.send(each.gesture),
  }, ...withCode(each.label));

/**
 * How near the best is to the proven lower bound.
 * @param {Wb} wb
 * @param {NonNullable<FindState["gap"]>} gap
 */
function drawGap(wb, gap) {
  const level = h("i");
  level.style.width = `${gap.share * 100}%`;
  return h(
    "div",
    { class: gap.proved ? "gap proved" : "gap" },
    h("b", {}, gap.best),
    h("span", { class: "muted" }, termLabel(wb, "Gap")),
    h("div", { class: "bar", role: "img", ariaLabel: gap.text }, level),
    h("span", { class: gap.proved ? "good" : "muted" }, gap.proved ? `✓ ${gap.text}` : gap.text),
  );
}

/** @param {Wb} wb */
function findOf(wb) {
  /** @type {ReturnType<typeof fieldOf>[]} */
  let fields = [];
  const start = h("button", { class: "btn primary", type: "submit", data: { focus: "find" } });
  const stop = h("button", {
    class: "btn",
    type: "button",
    data: { focus: "stop-finding" },
    onclick: () => wb.send({ verb: "stop_finding" }),
  }, "Stop");
  const inputs = h("div", { class: "groups" }), ending = h("div", { class: "inputs" }), level = h("i");
  const bar = h("div", { class: "progress", role: "progressbar", ariaLabel: "search", ariaValueMin: "0", ariaValueMax: "100" }, level);
  const line = h("div", { class: "line muted" }), gap = h("div"), message = h("div", { class: "says" });
  const present = h("div", { class: "present-plan" });
  const form = h(
    "form",
    {
      ariaLabel: "What to find",
      onsubmit: (event) => {
        event.preventDefault();
        wb.send(
          Object.assign(/** @type {Gesture} */ ({ verb: "find" }), Object.fromEntries(fields.map((each) => [each.name, each.read()]))),
        );
      },
    },
    inputs,
    h("div", { class: "buttons" }, start, stop, ending, line),
  );
  const element = h("section", { class: "search-form", ariaLabel: "Find a plan" }, form, bar, gap, present, message), speak = speaker(wb);
  /** @type {Paint<FindState>} */
  const paint = painter((state) => {
    if (!fields.length) {
      fields = state.fields.map(fieldOf);
      const groups = [...new Set(state.fields.map((each) => each.group))].filter(Boolean);
      /** @param {string} group  what is to be ticked stays on one line */
      const labels = (group) => {
        const [checks, others] = [true, false].map((isCheck) =>
          fields.filter((_, i) => state.fields[i].group === group && (state.fields[i].kind === "check") === isCheck).map((each) =>
            each.label
          )
        );
        return checks.length ? [...others, h("div", { class: "checks" }, ...checks)] : others;
      };
      inputs.replaceChildren(
        ...groups.map((group) => h("fieldset", {}, h("legend", {}, group), h("div", { class: "inputs" }, ...labels(group)))),
      );
      ending.replaceChildren(...labels(""));
    } else fields.forEach((each, i) => each.paint(state.fields[i]));
    element.dataset.phase = state.phase;
    start.textContent = state.label;
    start.disabled = state.running;
    stop.hidden = !state.running;
    line.textContent = state.line;
    bar.hidden = !state.running;
    bar.classList.toggle("unknown", state.phase === "preparing");
    level.style.width = state.phase === "preparing" ? "" : `${state.fraction * 100}%`;
    bar.ariaValueNow = String(Math.round(state.fraction * 100));
    gap.replaceChildren(...(state.gap ? [drawGap(wb, state.gap)] : []));
    present.hidden = !state.present;
    present.replaceChildren(...(state.present ? [h("i", { ariaHidden: "true" }), h("span", {}, ...withCode(state.present))] : []));
    keepingFocus(wb.root, message, () => paintMessage(wb, message, state));
    speak(state.said);
  });
  return { element, paint };
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} message
 * @param {FindState} state
 */
function paintMessage(wb, message, state) {
  message.hidden = !state.message;
  message.className = `says ${state.tone}`;
  message.replaceChildren(
    h("p", {}, ...withCode(state.message)),
    ...(state.ways_out.length ? [h("ul", {}, ...state.ways_out.map((way) => h("li", {}, ...withCode(way))))] : []),
    ...(state.acts.length ? [h("div", { class: "acts" }, ...state.acts.map((each) => actOf(wb, each)))] : []),
  );
}

/**
 * The chosen plan, what can be done with it, and which other it is held against.
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {FoundCard} card
 */
export function paintFound(wb, place, card) {
  const [take, ...others] = card.acts, than = card.than;
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
        ...others.map((each) => actOf(wb, each, "btn")),
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
              ...than.options.map((each) => h("option", { value: each.name, selected: each.name === than.value }, each.label)),
            ),
          )
          : null,
      ),
      ...(card.waiting
        ? [h("div", { class: "waiting", role: "status" }, card.waiting, h("div", { class: "progress unknown" }, h("i")))]
        : []),
    ));
}
