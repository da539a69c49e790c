// @ts-check
// The model size strip: sliders for batch, sequence and layers, fields for other options, and proposed dimension names.

import { drawProblem, h, keepingFocus, painter } from "./dom.js";
import { waitLine } from "./wait_line.js";
/** @import { ModelState, SizeField } from "./types/start.d.ts" */
/** @import { Refusal } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

const DEBOUNCE_MS = 120; // a slider sends its value after this pause

/**
 * @param {Wb} wb
 * @param {string} name
 * @param {string} value
 */
const sendSize = (wb, name, value) => wb.send({ verb: "size_model", name, value });

/**
 * A slider over the stops of a size, with a field for values in between; updates from Python wait while the user is editing.
 * @param {Wb} wb
 * @param {string} name
 */
function slider(wb, name) {
  /** @type {string[]} */
  let stops = [];
  let timer = 0, sent = "", isHeld = false, isBusy = false;
  const at = () => stops[Number(range.value)] ?? sent;
  const tell = () => {
    clearTimeout(timer);
    if (at() !== sent) sendSize(wb, name, sent = at());
  };
  const range = h("input", {
    type: "range",
    min: "0",
    step: "1",
    ariaLabel: `${name}, slider`,
    data: { focus: `slider ${name}` },
    oninput: () => {
      isHeld = true;
      number.value = at();
      range.ariaValueText = at();
      clearTimeout(timer);
      if (!isBusy) timer = setTimeout(tell, DEBOUNCE_MS);
    },
    onchange: () => {
      isHeld = false;
      tell();
    },
  });
  const number = h("input", {
    class: "field",
    inputMode: "numeric",
    maxLength: 12,
    ariaLabel: name,
    data: { focus: `size ${name}` },
    oninput: () => {
      isHeld = true;
    },
    onchange: () => {
      isHeld = false;
      sendSize(wb, name, sent = number.value);
    },
    onblur: () => {
      isHeld = false;
    },
  });
  const element = h("label", { class: "sizer", data: { size: name } }, h("span", { class: "muted" }, name), range, number);
  /**
   * @param {SizeField} field
   * @param {boolean} busy
   */
  const paint = (field, busy) => {
    isBusy = busy;
    if (isHeld || busy) return;
    sent = field.value;
    stops = field.stops;
    range.max = String(stops.length - 1);
    range.value = String(stops.indexOf(field.value));
    range.ariaValueText = field.value;
    number.value = field.value;
    number.title = field.hint;
  };
  return { element, paint };
}

/**
 * @param {Wb} wb
 * @param {SizeField} field
 */
function drawField(wb, field) {
  const about = { class: "field", ariaLabel: field.name, title: field.hint, data: { focus: `size ${field.name}` } };
  /** @param {Event} event */
  const onchange = (event) => sendSize(wb, field.name, /** @type {HTMLInputElement | HTMLSelectElement} */ (event.target).value);
  const options = field.kind === "flag" ? ["true", "false"] : field.options;
  const control = field.kind === "choice" || field.kind === "flag"
    ? h(
      "select",
      { ...about, onchange },
      ...options.map((option) => h("option", { value: option, selected: option === field.value }, option || "none")),
    )
    : h("input", { ...about, value: field.value, maxLength: 60, onchange });
  return h("label", { class: "sizer", data: { size: field.name } }, h("span", { class: "muted" }, field.name), control);
}

/**
 * Dimension names proposed by the trace, to accept or replace.
 * @param {Wb} wb
 * @param {ModelState["names"]} names
 */
function drawNames(wb, names) {
  const fields = names.map(({ name, size, reason }) => {
    const field = h("input", {
      class: "field",
      value: name,
      ariaLabel: `name of dimension ${name}`,
      title: reason,
      maxLength: 64,
      spellcheck: false,
      data: { focus: `name ${name}` },
      onchange: () => wb.send({ verb: "rename_dim", dim: name, name: field.value, zone: "model sizes" }),
    });
    return h("label", { class: "sizer", title: reason }, field, h("span", { class: "muted" }, size));
  });
  const confirm = h(
    "button",
    { class: "btn small", type: "button", data: { focus: "confirm-names" }, onclick: () => wb.send({ verb: "confirm_names" }) },
    "Confirm names",
  );
  return [h("span", { class: "muted" }, "Proposed dimension names"), ...fields, confirm];
}

/** @param {Wb} wb */
export function modelStrip(wb) {
  const section = h("section", { class: "modelstrip", ariaLabel: "Sizes of the model", hidden: true });
  const main = h("div", { class: "sizes" }),
    more = h("div", { class: "sizes all-sizes", hidden: true }),
    names = h("div", { class: "sizes dim-names" });
  const problem = h("div", {}), wait = waitLine(wb, "stop_sizing");
  const preset = h("div", { class: "preset-size" }), sliders = h("div", { class: "sliders" });
  const all = h("button", {
    class: "btn small",
    type: "button",
    ariaExpanded: "false",
    data: { focus: "all-sizes" },
    onclick: () => {
      more.hidden = !more.hidden;
      all.ariaExpanded = String(!more.hidden);
    },
  }, "All sizes");
  main.append(preset, sliders, all, wait.element);
  section.append(main, more, problem, names);
  /** @type {Map<string, ReturnType<typeof slider>>} */
  const sliding = new Map();
  /** @type {Paint<SizeField[]>} */
  const paintMore = painter((fields) =>
    keepingFocus(wb.root, section, () => {
      const [first, ...others] = fields[0]?.name === "preset" ? fields : [null, ...fields];
      preset.replaceChildren(...(first ? [drawField(wb, first)] : []));
      more.replaceChildren(...others.filter((field) => field !== null).map((field) => drawField(wb, field)));
      all.hidden = !others.length;
    })
  );
  /** @type {Paint<ModelState["names"]>} */
  const paintNames = painter((state) =>
    keepingFocus(wb.root, names, () => {
      names.hidden = !state.length;
      names.replaceChildren(...(state.length ? drawNames(wb, state) : []));
    })
  );
  /** @type {Paint<{ failure: Refusal | null; seq: number }>} */
  const paintProblem = painter(({ failure }) =>
    problem.replaceChildren(
      ...(failure ? [h("div", { class: "told bad", role: "alert" }, ...drawProblem(failure).filter((node) => node !== null))] : []),
    )
  );
  /**
   * @param {ModelState | null} state
   * @param {Refusal | null} refusal
   * @param {number} seq
   */
  const paint = (state, refusal, seq) => {
    section.hidden = !state;
    if (!state) return wait.paint(null);
    const withSlider = state.sizes.filter((size) => size.stops.length);
    if (withSlider.map((size) => size.name).join() !== [...sliding.keys()].join()) {
      sliding.clear();
      for (const { name } of withSlider) sliding.set(name, slider(wb, name));
      sliders.replaceChildren(...[...sliding.values()].map((slider) => slider.element));
    }
    for (const field of withSlider) sliding.get(field.name)?.paint(field, Boolean(state.work));
    main.hidden = !state.sizes.length;
    section.dataset.waiting = String(Boolean(state.work));
    paintMore(state.sizes.filter((size) => !size.stops.length));
    paintNames(state.names);
    paintProblem({ failure: refusal, seq });
    wait.paint(state.work);
  };
  return { section, paint };
}
