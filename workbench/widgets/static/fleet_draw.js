// @ts-check
// The picture of a fleet's schedule, as SVG text: a row a device, a colour and a number a model; below it what was measured, on the same axis.

import { clock } from "./clock.js";
import { h, svg } from "./dom.js";
import { drawTicks, escaped, GUTTER, hatches, NARROW_TEXT, px, scaleOf } from "./gantt_draw.js";
import { svgSwatch } from "./gantt_swatch.js";
/** @import { FleetChart, Unit } from "./types/fleet.d.ts" */
/** @import { Chart, Lane, Sight } from "./types/pipeline.d.ts" */

const SECTION = 17, MOVING = 3, LEAST_UNIT = 1.25; // pixels of a caption, of the line that says when a unit's state came in, of a unit

/** @type {Chart<FleetChart, Unit>} */
export const FLEET_CHART = {
  title: "Shard units over time",
  name: "fleet timeline",
  draw: drawFleet,
  tell: tellUnit,
  key: drawFleetKey,
  again: sameUnit,
};

/**
 * `from` and `to` in seconds; with `own` what was measured is as long as what was predicted.
 * @param {FleetChart} state
 * @param {Sight<Unit>} given
 * @returns {string}
 */
function drawFleet(state, { from, to, width, own, chosen }) {
  const x = scaleOf(from, to, width);
  const bar = state.devices > 16 ? 11 : 18, row = bar + MOVING + 4, block = SECTION + state.devices * row + 4;
  /** @type {{ which: "tasks" | "measured"; name: string; top: number; lasts: number; stretch: number }[]} */
  const sections = [{
    which: "tasks",
    name: state.expected.length ? "predicted at the start" : "predicted",
    top: 14,
    lasts: state.seconds,
    stretch: 1,
  }];
  if (state.lasted) {
    sections.push({
      which: "measured",
      name: state.expected.length ? "measured, then as now expected" : "measured",
      top: 14 + block,
      lasts: own ? state.seconds : state.lasted,
      stretch: own ? state.seconds / state.lasted : 1,
    });
  }
  const height = 14 + sections.length * block;
  const marks = [`<clipPath id="fleet-clip"><rect x="${GUTTER}" y="0" width="${width - GUTTER}" height="9999"/></clipPath>`, hatches()];
  marks.push(...drawTicks({ from, to, x, width, bottom: height - 4 }));
  for (const { which, name, top, lasts, stretch } of sections) {
    marks.push(`<text x="0" y="${top + 13}" font-weight="600">${name}</text>`);
    for (let device = 0; device < state.devices; device++) {
      const y = top + SECTION + device * row, end = Math.min(x(lasts), width), begin = Math.max(GUTTER, x(0));
      marks.push(`<text x="0" y="${y + bar / 2 + 4}">device ${device}</text>`);
      if (end > begin) marks.push(`<rect x="${px(begin)}" y="${y}" width="${px(end - begin)}" height="${bar}" fill="url(#idle)"/>`);
    }
    marks.push(
      '<g clip-path="url(#fleet-clip)">',
      ...drawUnits(state, which, { x, width, chosen, at: (device) => top + SECTION + device * row, high: bar, stretch }),
    );
    if (which === "measured" && state.expected.length) {
      marks.push(
        `<clipPath id="fleet-rest"><rect x="${
          px(Math.max(GUTTER, x(state.ran * stretch)))
        }" y="0" width="${width}" height="9999"/></clipPath><g class="expected" opacity="0.4" clip-path="url(#fleet-rest)">`,
        ...drawUnits(state, "expected", { x, width, chosen, at: (device) => top + SECTION + device * row, high: bar, stretch }),
        "</g>",
      );
    }
    marks.push("</g>");
  }
  const bound = x(state.bound);
  if (bound > GUTTER && bound <= width) {
    marks.push(
      `<path d="M${px(bound)} 14V${height - 4}" stroke="#D1383F" stroke-dasharray="4 3" stroke-width="1.25"><title>${
        escaped(state.bound_text)
      }</title></path>`,
    );
  }
  return `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${
    escaped(state.about)
  }" font-size="11" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" fill="#737C86">${marks.join("")}</svg>`;
}

/**
 * @param {FleetChart} state
 * @param {"tasks" | "measured" | "expected"} which
 * @param {Lane<Unit>} given
 * @returns {string[]}
 */
function drawUnits(state, which, { x, width, chosen, at, high, stretch }) {
  /** @type {string[]} */
  const marks = [];
  /** @type {Map<number, number>} */
  const narrow = new Map(); // of each device, where its last bar of many ends
  state[which].forEach((task, place) => {
    const [device, start, end, model, unit, load, lost, low, up] = task;
    if (task.length > 7) {
      marks.push(
        drawSlice(state, `${which} ${place}`, task, {
          x,
          width,
          chosen,
          top: at(device) + high * (1 - up),
          high: high * (up - low),
          stretch,
        }),
      );
      return;
    }
    const left = x(start * stretch), right = x(end * stretch);
    if (right < GUTTER || x(load * stretch) > width) return;
    const y = at(device), seen = right - left, { fill, ink, number, units } = state.models[model];
    if (seen < LEAST_UNIT) { // many of them: the first of those that share a bar stands for all
      if (left < (narrow.get(device) ?? -Infinity)) return;
      narrow.set(device, left + LEAST_UNIT);
    }
    const wide = Math.max(seen - (seen > 4 ? 1 : 0), LEAST_UNIT), weak = units[unit % units.length]?.weak;
    const strength = (chosen && chosen[3] !== model ? 0.25 : 1) * (weak ? 0.62 : 1);
    marks.push(
      `<rect data-task="${which} ${place}"${chosen === task ? ' class="at"' : ""} x="${px(left)}" y="${y}" width="${
        px(wide)
      }" height="${high}" fill="${fill}" opacity="${strength}"/>`,
    );
    if (lost) marks.push(`<rect x="${px(left)}" y="${y}" width="${px(wide)}" height="${high}" fill="url(#again)" pointer-events="none"/>`);
    if (start - load > 0 && (start - load) * stretch > 0 && left - x(load * stretch) > 1) {
      marks.push(
        `<rect x="${px(x(load * stretch))}" y="${y + high + 1}" width="${px(left - x(load * stretch))}" height="${
          MOVING - 1
        }" fill="${fill}" opacity="0.55" pointer-events="none"/>`,
      );
    }
    if (high >= 12 && seen > number.length * NARROW_TEXT + 7) {
      marks.push(
        `<text x="${px((left + right) / 2)}" y="${y + high / 2 + 3.8}" text-anchor="middle" fill="${weak ? "#1B1F24" : ink}" class="${
          weak ? "weak" : ""
        }" pointer-events="none"${chosen && chosen[3] !== model ? ' opacity="0.3"' : ""}>${number}</text>`,
      );
    }
  });
  return marks;
}

/**
 * A model's share of a device in a slice of time, of units too many to draw.
 * @param {FleetChart} state
 * @param {string} name
 * @param {Unit} task
 * @param {Omit<Lane<Unit>, "at"> & { top: number }} given
 * @returns {string}
 */
function drawSlice(state, name, task, { x, width, chosen, top, high, stretch }) {
  const left = Math.max(x(task[1] * stretch), GUTTER), right = Math.min(x(task[2] * stretch), width);
  if (right <= left) return "";
  return `<rect data-task="${name}"${chosen === task ? ' class="at"' : ""} x="${px(left)}" y="${px(top)}" width="${
    px(right - left)
  }" height="${px(high)}" fill="${state.models[task[3]].fill}" opacity="${chosen && chosen[3] !== task[3] ? 0.4 : 0.9}"/>`;
}

/**
 * @param {FleetChart} state
 * @param {Unit} task
 * @returns {string}
 */
function tellSlice(state, task) {
  const [device, start, end, model, , , , low, up, count] = task;
  return `${state.models[model].name} · ${clock(start)} to ${clock(end)} · ${
    Math.round((up - low) * 100)
  } % of device ${device} · ${count} units begin`;
}

/**
 * @param {FleetChart} state
 * @returns {HTMLElement[]}
 */
function drawFleetKey(state) {
  /**
   * @param {Node} mark
   * @param {string} name
   */
  const swatch = (mark, name) => h("span", {}, mark, name);
  /** @param {boolean} dashes */
  const line = (dashes) =>
    svg(
      "svg",
      { width: 14, height: 10, "aria-hidden": "true" },
      svg("path", {
        d: "M0 5H14",
        stroke: dashes ? "#D1383F" : "#8B949E",
        "stroke-width": dashes ? 1.5 : 2.5,
        ...(dashes ? { "stroke-dasharray": "4 3" } : {}),
      }),
    );
  return [
    h("span", {}, "light: forward"),
    swatch(line(false), "state brought in"),
    swatch(svgSwatch("url(#idle)"), "idle"),
    swatch(line(true), state.bound_text),
    ...(state.expected.length ? [h("span", {}, "faint: as now expected")] : []),
  ];
}

/**
 * @param {FleetChart} state
 * @param {Unit} task
 * @returns {string}
 */
function tellUnit(state, task) {
  if (task.length > 7) return tellSlice(state, task);
  const [device, start, end, model, unit] = task, { name, units } = state.models[model];
  const real = state.measured.includes(task),
    rest = Boolean(state.expected.includes(task)),
    other = (real || rest ? state.tasks : state.measured).find((each) => each[3] === model && each[4] === unit && !each[6]);
  /**
   * @param {Unit} each
   * @param {string} label
   * @returns {string}
   */
  const words = (each, label) => `${label} ${clock(each[1])} to ${clock(each[2])}, ${clock(each[2] - each[1])}`;
  if (rest) {
    return `${name} · ${units[unit % units.length]?.says}, mini-batch ${Math.floor(unit / units.length) + 1} · device ${device} · ${
      words(task, "as now expected")
    }${other ? ` · ${words(other, "predicted")}` : ""}`;
  }
  const ratio = other && other[2] > other[1] && end > start
    ? ` · measured is ${(real ? (end - start) / (other[2] - other[1]) : (other[2] - other[1]) / (end - start)).toFixed(2)}× of it`
    : "";
  const lost = task[6] ? " · lost with its device, and done again" : "";
  return `${name} · ${units[unit % units.length]?.says}, mini-batch ${Math.floor(unit / units.length) + 1} · device ${device} · ${
    words(task, real ? "measured" : "predicted")
  }${other ? ` · ${words(other, real ? "predicted" : "measured")}` : ""}${ratio}${lost}`;
}

/**
 * The unit that was chosen, in a newer state.
 * @param {Unit | null} chosen
 * @param {FleetChart | null} before
 * @param {FleetChart} next
 * @returns {Unit | null}
 */
function sameUnit(chosen, before, next) {
  if (!chosen || !before) return null;
  for (const which of /** @type {const} */ (["tasks", "measured", "expected"])) {
    const at = before[which].indexOf(chosen), found = at < 0 ? null : next[which][at];
    if (found) return found[3] === chosen[3] && found[4] === chosen[4] ? found : null;
  }
  return null;
}
