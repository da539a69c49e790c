// @ts-check
// The tab Find: its sentence and options, how far the search is, what clashes.

import { h, keepingFocus, painter, withCode } from "./dom.js";
import { actOf } from "./found.js";
import { termLabel } from "./terms.js";
import { speaker } from "./work.js";
/** @import { FindField, FindState } from "./types/find.d.ts" */
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
  const list = field.options.length ? `find-${field.name}` : null;
  const input = h("input", { ...about, class: "field", placeholder: field.hint, autocomplete: "off", spellcheck: false, list });
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
    : h(
      "label",
      { class: "find-field", title: field.title },
      h("span", { class: "caption" }, field.label),
      control,
      field.kind === "text" && field.options.length
        ? h("datalist", { id: `find-${field.name}` }, ...field.options.map((each) => h("option", { value: each.name })))
        : null,
    );
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
  const sentence = h("div", { class: "sentence" }), groups = h("div", { class: "groups" }), level = h("i");
  const options = h("summary", {}), details = h("details", { class: "options" }, options, groups);
  const bar = h("div", { class: "progress", role: "progressbar", ariaLabel: "search", ariaValueMin: "0", ariaValueMax: "100" }, level);
  const line = h("div", { class: "line muted" }), gap = h("div"), message = h("div", { class: "says" });
  const present = h("div", { class: "present-plan" });
  const form = h(
    "form",
    {
      ariaLabel: "What to find",
      onchange: () => wb.expect({ verb: "find" }), // another space is searched by another process
      onsubmit: (event) => {
        event.preventDefault();
        wb.send(
          Object.assign(/** @type {Gesture} */ ({ verb: "find" }), Object.fromEntries(fields.map((each) => [each.name, each.read()]))),
        );
      },
    },
    sentence,
    details,
    line,
  );
  const element = h("section", { class: "search-form", ariaLabel: "Find a plan" }, form, bar, gap, present, message), speak = speaker(wb);
  /** @type {Paint<FindState>} */
  const paint = painter((state) => {
    if (!fields.length) {
      fields = state.fields.map(fieldOf);
      /** @param {string} group  what is to be ticked stays on one line */
      const labels = (group) => {
        const [checks, others] = [true, false].map((isCheck) =>
          fields.filter((_, i) => state.fields[i].group === group && (state.fields[i].kind === "check") === isCheck).map((each) =>
            each.label
          )
        );
        return checks.length ? [...others, h("div", { class: "checks" }, ...checks)] : others;
      };
      sentence.replaceChildren(...labels(""), start, stop);
      groups.replaceChildren(
        ...[...new Set(state.fields.map((each) => each.group))].filter(Boolean).map((group) =>
          h("fieldset", {}, h("legend", {}, group), h("div", { class: "inputs" }, ...labels(group)))
        ),
      );
    } else fields.forEach((each, i) => each.paint(state.fields[i]));
    options.textContent = state.options;
    element.dataset.phase = state.phase;
    start.textContent = state.label;
    stop.hidden = !state.running;
    line.textContent = state.line;
    line.hidden = !state.line;
    bar.hidden = !state.running;
    bar.classList.toggle("unknown", !state.fraction);
    level.style.width = state.fraction ? `${state.fraction * 100}%` : "";
    bar.ariaValueNow = String(Math.round(state.fraction * 100));
    gap.replaceChildren(...(state.gap ? [drawGap(wb, state.gap)] : []));
    present.hidden = !state.present;
    keepingFocus(wb.root, present, () =>
      present.replaceChildren(
        h("i", { ariaHidden: "true" }),
        h("span", {}, ...withCode(state.present)),
        ...state.pins.map((each) => actOf(wb, each)),
      ));
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
