// @ts-check
// The propagation replay: a slider over its steps, and the effect of each step.

import { all, h, painter, withCode } from "./dom.js";
/** @import { Replay, ReplayLine, ReplaySteps } from "./types/table_cells.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

const DIRECTIONS = { forward: "↓", backward: "↑", across: "↔" };
const STEP_MS = 450; // while playing

/** @type {WeakMap<HTMLElement, ReturnType<typeof replayOf>>} */
const replayIn = new WeakMap();

/**
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {Replay} state
 */
export function paintReplay(wb, place, state) {
  if (state.waiting !== undefined) {
    replayIn.delete(place);
    const level = h("i");
    place.replaceChildren(h("div", { class: "waiting", role: "status" }, state.waiting, h("div", { class: "progress unknown" }, level)));
    return;
  }
  const known = replayIn.get(place), replay = known ?? replayOf(wb, state);
  if (!known) {
    replayIn.set(place, replay);
    place.replaceChildren(replay.element);
  }
  replay.paint(state);
}

/**
 * @param {Wb} wb
 * @param {ReplaySteps} first
 */
function replayOf(wb, first) {
  let state = first, sending = 0, playing = 0;
  /** @type {number | null} */
  let wanted = null; // the step to request next
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  const slider = h("input", {
    type: "range",
    min: "0",
    step: "1",
    class: "slider",
    ariaLabel: "Step of the propagation",
    data: { focus: "replay slider" },
    oninput: () => {
      pause();
      go(Number(slider.value));
    },
  });
  /**
   * @param {string} name
   * @param {string} text
   * @param {() => void} does
   */
  const button = (name, text, does) =>
    h("button", { class: "btn", type: "button", data: { focus: `replay ${name}` }, onclick: does }, text);
  /** @param {number} by */
  const move = (by) => {
    pause();
    go(at() + by);
  };
  const back = button("back", "‹", () => move(-1)), on = button("on", "›", () => move(1));
  const play = button("play", "Play", () => {
    if (playing) pause();
    else if (still()) go(state.last);
    else start();
  });
  const count = h("span", { class: "mono count" }), lines = h("div", { class: "did" });
  const conflicts = button("conflicts", "", () => heading("Conflicts")?.scrollIntoView({ block: "center" }));
  /** @param {string} text */
  const heading = (text) => all(wb.root, ".tables h3").find((element) => element.textContent === text);
  const element = h(
    "div",
    {},
    h("div", { class: "controls", role: "group", ariaLabel: "Replay" }, back, slider, on, play, count, conflicts),
    lines,
  );
  back.ariaLabel = "Step back";
  on.ariaLabel = "Step forward";

  let placed = false; // the slider's initial value is the browser's, not the replay's
  const at = () => wanted ?? Number(slider.value);
  /** @param {number} step */
  const go = (step) => {
    wanted = Math.max(0, Math.min(state.last, step));
    slider.value = String(wanted);
    mark(wanted);
    clearTimeout(sending);
    send();
  };
  const send = () => { // sends only the latest value, with one request at a time
    if (wanted === null || !slider.isConnected) return;
    if (wb.root.dataset.busy === "true") {
      sending = setTimeout(send, 20);
      return;
    }
    const step = wanted;
    wanted = null;
    wb.send({ verb: "step", step });
  };
  /** @param {number} step */
  const mark = (step) => {
    count.textContent = `step ${step.toLocaleString("en")} of ${state.last.toLocaleString("en")}`;
    back.disabled = step <= 0;
    on.disabled = step >= state.last;
  };
  const start = () => {
    if (at() >= state.last) go(0);
    playing = setInterval(() => {
      if (!slider.isConnected || at() >= state.last) pause();
      else if (wb.root.dataset.busy !== "true") go(at() + state.stride);
    }, STEP_MS);
    label();
  };
  const pause = () => {
    clearInterval(playing);
    playing = 0;
    label();
  };
  const label = () => {
    play.textContent = playing ? "Pause" : still() ? "Play to the end" : "Play";
  };

  /** @param {ReplayLine} line */
  const drawLine = (line) =>
    h(
      "p",
      { data: { subject: line.subject || null } },
      h("b", { class: "way" }, `${DIRECTIONS[line.direction]} ${line.direction}`),
      h("span", { class: "tag", data: { c: line.axis.colour } }, line.axis.name),
      " from ",
      h("span", { class: "mono" }, line.from),
      " to ",
      h("span", { class: "mono" }, line.to),
      h("span", { class: "muted" }, `  over ${line.over}`),
    );
  /** @type {Paint<ReplaySteps>} */
  const paint = painter((now) => {
    state = now;
    slider.max = String(now.last);
    slider.disabled = play.disabled = !now.last;
    slider.setAttribute("aria-valuetext", now.said);
    if (wanted === null && (!placed || wb.root.dataset.busy !== "true")) slider.value = String(now.step);
    placed = true;
    mark(at());
    label();
    conflicts.hidden = !now.conflicts;
    conflicts.textContent = `${now.conflicts} ↓`;
    conflicts.ariaLabel = `${now.conflicts}, below`;
    requestAnimationFrame(() => showArrived(wb));
    lines.replaceChildren(
      ...(now.start ? [h("p", {}, ...withCode(now.start))] : []),
      ...now.lines.map(drawLine),
      now.more ? h("p", { class: "muted" }, now.more) : "",
    );
  });
  return { element, paint };
}

/**
 * Scrolls the box reached by this step (its title begins with an arrow) into view.
 * @param {Wb} wb
 */
function showArrived(wb) {
  for (const image of wb.root.querySelectorAll(".tables[data-tab=propagation] .image")) {
    const arrived = all(image, "title").find((title) => title.textContent.startsWith("→ "))?.parentElement;
    if (!arrived) continue;
    const box = arrived.getBoundingClientRect(), frame = image.getBoundingClientRect();
    /**
     * @param {number} low
     * @param {number} high
     * @param {number} from
     * @param {number} to
     */
    const off = (low, high, from, to) => (low < from || high > to ? (low + high) / 2 - (from + to) / 2 : 0);
    image.scrollBy({
      left: off(box.left, box.right, frame.left, frame.right),
      top: off(box.top, box.bottom, frame.top, frame.bottom),
      behavior: "instant",
    });
  }
}
