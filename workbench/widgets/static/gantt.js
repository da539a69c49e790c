// @ts-check
// The schedule of a fleet over time, predicted above measured, on the same axis. Zoomed and panned here.

import { h, SVG, targetOf, the } from "./dom.js";
import { GUTTER } from "./gantt_draw.js";
import { follow, panned, taskBeside, taskOf, zoomed } from "./gantt_viewport.js";
import { termLabel } from "./help.js";
import { savePicture, SAVES } from "./picture.js";
/** @import { AnyTask, Chart, Drawn, Seen } from "./types/pipeline.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/** @type {Seen} */
const WHOLE = [0, 1];
const IN = 0.625, OUT = 1.6; // by how much a key or a button zooms

/**
 * A chart over time that can be zoomed, panned and walked.
 * @template {Drawn<T>} S
 * @template {AnyTask} T
 * @param {Wb} wb
 * @param {Chart<S, T>} chart
 */
export function ganttChart(wb, chart) {
  const hint = "Gantt chart. Plus and minus zoom, A and D pan, 0 shows all; arrows walk over the tasks.";
  const image = h("div", { class: "image gantt", tabIndex: 0, role: "application", ariaLabel: hint, data: { focus: "gantt" } });
  const told = h("div", { class: "tasktold", role: "status" }),
    key = h("div", { class: "key" }),
    note = h("div", { class: "muted difference" });
  const scaled = h("input", { type: "checkbox", data: { focus: "gantt-scaled" } });
  const scaling = h(
    "label",
    { class: "scaling", title: "Draw what was measured as long as what was predicted, to compare their order" },
    scaled,
    " measured to its own scale",
  );
  const twin = h("pre", { tabIndex: 0 });
  /**
   * @param {string} sign
   * @param {string} name
   * @param {() => void} act
   */
  const zoom = (sign, name, act) =>
    h("button", { class: "btn icon", type: "button", ariaLabel: name, title: name, data: { focus: `gantt${sign}` }, onclick: act }, sign);
  const tools = h(
    "div",
    { class: "gantttools" },
    key,
    scaling,
    h(
      "span",
      { class: "zooms" },
      zoom("−", "Zoom out", () => zoomOut()),
      zoom("+", "Zoom in", () => zoomIn()),
      zoom("↔", "Show the whole step", () => show(WHOLE)),
    ),
  );
  const saves = h(
    "span",
    { class: "saves" },
    "Save as ",
    ...Object.keys(SAVES).map((kind) =>
      h("button", {
        class: "btn small",
        type: "button",
        ariaLabel: `Save the timeline as ${kind}`,
        data: { save: kind },
        onclick: () => savePicture(wb, { svg: standalone(image), text: state?.text ?? "", name: chart.name }, kind),
      }, kind)
    ),
  );
  const element = h(
    "div",
    { class: "ganttbox" },
    h("h3", {}, termLabel(wb, chart.title)),
    tools,
    image,
    told,
    note,
    h("div", { class: "under" }, h("details", {}, h("summary", {}, "As text"), twin), saves),
  );
  /** @type {S | null} */
  let state = null;
  /** @type {T | null} */
  let chosen = null;
  let seen = WHOLE, frame = 0;

  const length = () => (state && Math.max(state.seconds, scaled.checked ? 0 : state.lasted)) || 1;
  const draw = () => {
    frame = 0;
    if (state && image.clientWidth) {
      image.innerHTML = chart.draw(state, {
        from: seen[0] * length(),
        to: seen[1] * length(),
        width: Math.max(image.clientWidth, 420),
        own: scaled.checked,
        chosen,
      });
    }
  };
  const soon = () => {
    frame ||= requestAnimationFrame(draw);
  };
  /** @param {Seen} next */
  const show = (next) => {
    seen = next;
    image.dataset.from = seen[0].toFixed(4);
    image.dataset.to = seen[1].toFixed(4);
    soon();
  };
  /**
   * @param {MouseEvent} event
   * @returns {number}
   */
  const share = (event) => {
    const box = image.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left - GUTTER) / (box.width - GUTTER)));
  };
  /** @param {T | null} task */
  const choose = (task) => {
    if (task === chosen) return;
    chosen = task;
    told.textContent = task && state ? chart.tell(state, task) : "";
    soon();
  };

  image.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      show(zoomed(seen, event.deltaY > 0 ? 1.25 : 0.8, share(event)));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      show(panned(seen, (event.deltaX || event.deltaY) / image.clientWidth));
    }
  }, { passive: false });
  image.addEventListener("pointermove", (event) => {
    if (!wb.dragging && state) choose(taskOf(state, targetOf(event).dataset?.task ?? ""));
  });
  image.addEventListener("pointerleave", () => choose(null));
  image.addEventListener("dblclick", (event) => show(zoomed(seen, 0.5, share(event))));
  image.addEventListener("pointerdown", (event) => {
    if (!event.button && seen[1] - seen[0] < 1) panBy(wb, image, event, seen, show);
  });
  image.addEventListener("keydown", (event) => {
    const act = acts[event.key.length > 1 ? event.key : event.key.toLowerCase()];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  /**
   * @param {number} by
   * @param {number} down
   */
  const walk = (by, down) => {
    const near = state && taskBeside(state, chosen, by, down);
    if (!near) return;
    choose(near);
    const there = follow(seen, near, length());
    if (there !== seen) show(there);
  };
  const zoomIn = () => show(zoomed(seen, IN)), zoomOut = () => show(zoomed(seen, OUT));
  /** @type {Record<string, () => void>} */
  const acts = {
    "+": zoomIn,
    "=": zoomIn,
    w: zoomIn,
    "-": zoomOut,
    s: zoomOut,
    0: () => show(WHOLE),
    a: () => show(panned(seen, -1 / 5)),
    d: () => show(panned(seen, 1 / 5)),
    Escape: () => choose(null),
    ArrowRight: () => walk(1, 0),
    ArrowLeft: () => walk(-1, 0),
    ArrowDown: () => walk(0, 1),
    ArrowUp: () => walk(0, -1),
  };
  scaled.addEventListener("change", soon);
  new ResizeObserver(soon).observe(image);
  /** @param {S} next */
  const paint = (next) => {
    const other = !state || state.devices !== next.devices || state.far !== next.far || Boolean(state.lasted) !== Boolean(next.lasted);
    chosen = chart.again(chosen, state, next); // what the pointer is on stays chosen while a run goes on
    state = next;
    told.textContent = chosen ? chart.tell(state, chosen) : "";
    if (other) {
      scaled.checked = next.far;
      show(WHOLE);
    }
    scaling.hidden = !next.lasted;
    image.hidden = Boolean(next.note);
    image.ariaLabel = `${next.about} ${hint}`;
    note.textContent = next.note || next.difference;
    note.hidden = !note.textContent;
    twin.textContent = next.text;
    key.replaceChildren(...chart.key(next));
    draw();
  };
  return { element, paint };
}

/**
 * With the pointer; the chart holds it.
 * @param {Wb} wb
 * @param {HTMLElement} image
 * @param {PointerEvent} start
 * @param {Seen} seen
 * @param {(seen: Seen) => void} show
 */
function panBy(wb, image, start, seen, show) {
  wb.dragging = true;
  image.setPointerCapture(start.pointerId);
  const stop = new AbortController();
  const end = () => {
    stop.abort();
    wb.dragging = false;
    wb.paint();
  };
  image.addEventListener("pointermove", (event) => {
    show(panned(seen, (start.clientX - event.clientX) / (image.clientWidth - GUTTER)));
  }, { signal: stop.signal });
  image.addEventListener("pointerup", end, { signal: stop.signal });
  image.addEventListener("pointercancel", end, { signal: stop.signal });
}

/**
 * SVG that stands alone once it is taken out.
 * @param {Element} image
 * @returns {string}
 */
function standalone(image) {
  const copy = /** @type {Element} */ (the(image, "svg").cloneNode(true));
  copy.setAttribute("xmlns", SVG);
  return copy.outerHTML;
}
