// @ts-check
// The picture of a pipelined step, as SVG text: only what is seen of it at this zoom, neighbours too narrow to tell apart as one.

import { clock } from "./gantt_text.js";
/** @import { GanttState, Lane, Scale, Sight, Task } from "./types/pipeline.d.ts" */

export const GUTTER = 84; // pixels of the names before the bars
export const NARROW_TEXT = 6.2; // of a letter
const MEASURED_PX = 9, LEAST_BAR = 0.7;
/**
 * @param {string} text
 * @returns {string}
 */
export const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
/**
 * @param {number} value
 * @returns {string}
 */
export const px = (value) => value.toFixed(1);

/**
 * The place on the screen of a time, where `from` to `to` are in sight.
 * @param {number} from
 * @param {number} to
 * @param {number} width
 * @returns {Scale}
 */
export function scaleOf(from, to, width) {
  const scale = (width - GUTTER - 2) / (to - from || 1);
  return (time) => GUTTER + (time - from) * scale;
}

/**
 * `from` and `to` in seconds; with `own` the measured step is as long as the predicted one.
 * @param {GanttState} state
 * @param {Sight<Task>} given
 * @returns {string}
 */
export function drawGantt(state, { from, to, width, own, chosen }) {
  const x = scaleOf(from, to, width);
  const bar = state.devices > 16 ? 12 : 18, real = state.measured.length ? MEASURED_PX : 0, row = bar + (real ? real + 1 : 0) + 5;
  const stretch = own && state.lasted ? state.seconds / state.lasted : 1;
  const high = state.devices > 16 ? 12 : 22, memory = 18 + state.devices * row + 16;
  const marks = [`<clipPath id="gantt-clip"><rect x="${GUTTER}" y="0" width="${width - GUTTER}" height="9999"/></clipPath>`, hatches()];
  marks.push(...drawTicks({ from, to, x, width, bottom: memory + 18 + state.devices * (high + 3) }));
  for (let device = 0; device < state.devices; device++) {
    const y = 18 + device * row;
    marks.push(`<text x="0" y="${y + bar / 2 + 4}">stage ${device}</text>`);
    const end = Math.min(x(state.seconds), width);
    if (end > GUTTER) {
      marks.push(
        `<rect x="${GUTTER}" y="${y}" width="${px(Math.max(0, end - Math.max(GUTTER, x(0))))}" height="${bar}" fill="url(#idle)"/>`,
      );
    }
  }
  marks.push('<g clip-path="url(#gantt-clip)">');
  marks.push(...drawTasks(state, "tasks", { x, width, chosen, at: (device) => 18 + device * row, high: bar, stretch: 1 }));
  if (real) {
    marks.push(...drawTasks(state, "measured", { x, width, chosen, at: (device) => 18 + device * row + bar + 1, high: real, stretch }));
  }
  marks.push("</g>");
  marks.push(`<text x="0" y="${memory + 8}" font-weight="600">memory</text>`);
  marks.push(...drawMemory(state, { x, width, top: memory + 14, high, last: Math.min(x(state.seconds), width) }));
  const height = memory + 18 + state.devices * (high + 3);
  return `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${
    escaped(state.about)
  }" font-size="11" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" fill="#737C86">${marks.join("")}</svg>`;
}

/**
 * What is computed again is hatched over the backward pass; a bubble is hatched lightly.
 * @returns {string}
 */
export function hatches() {
  return '<defs><pattern id="idle" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#8B949E" fill-opacity="0.08"/><path d="M0 0V6" stroke="#8B949E" stroke-opacity="0.35"/></pattern>' +
    '<pattern id="again" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><path d="M0 0V4" stroke="#FFFFFF" stroke-opacity="0.65" stroke-width="2.4"/></pattern></defs>';
}

/**
 * @param {{ from: number; to: number; x: Scale; width: number; bottom: number }} given
 * @returns {string[]}
 */
export function drawTicks({ from, to, x, width, bottom }) {
  const wide = (to - from) / Math.max(2, (width - GUTTER) / 110), power = 10 ** Math.floor(Math.log10(wide || 1));
  const step = [1, 2, 5, 10].map((factor) => power * factor).find((each) => each >= wide) ?? power * 10;
  const marks = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) {
    const at = x(i * step);
    marks.push(`<path d="M${px(at)} 12V${bottom}" stroke="#8B949E" stroke-opacity="0.25"/>`);
    if (at < width - 40) marks.push(`<text x="${px(at + 3)}" y="10" font-size="10">${i ? escaped(clock(i * step)) : "0"}</text>`);
  }
  return marks;
}

/**
 * @param {GanttState} state
 * @param {"tasks" | "measured"} which
 * @param {Lane<Task>} given
 * @returns {string[]}
 */
function drawTasks(state, which, { x, width, chosen, at, high, stretch }) {
  /** @type {string[]} */
  const marks = [];
  /** @type {Map<number, number>} */
  const narrow = new Map(); // of each device, how far its narrow bars reach
  state[which].forEach((task, place) => {
    const [device, start, end, kind, , micro, again] = task;
    const left = x(start * stretch), right = x(end * stretch);
    if (right < GUTTER || left > width) return;
    const y = at(device), { fill, ink } = state.kinds[kind], seen = right - left;
    if (seen < LEAST_BAR) { // many of them: one bar for those that touch
      const before = narrow.get(device);
      if (before && left - before < LEAST_BAR * 2) return;
      narrow.set(device, left + LEAST_BAR * 2);
    }
    const wide = Math.max(seen - (seen > 4 ? 1 : 0), LEAST_BAR);
    const dim = chosen && (chosen[5] !== micro || (micro < 0 && chosen !== task)) ? ' opacity="0.3"' : "";
    const mark = chosen === task ? ' class="at"' : "";
    marks.push(
      `<rect data-task="${which} ${place}"${mark} x="${px(left)}" y="${y}" width="${px(wide)}" height="${high}" fill="${fill}"${dim}/>`,
    );
    if (again && seen > 3) {
      marks.push(
        `<rect x="${px(left)}" y="${y}" width="${px(wide * again)}" height="${high}" fill="url(#again)" pointer-events="none"${dim}/>`,
      );
    }
    const label = micro < 0 ? "" : `${micro}${"'".repeat(Math.floor(task[4] / state.devices))}`;
    if (high >= 12 && label && seen > label.length * NARROW_TEXT + 5) {
      const ground = again * wide > 4
        ? `<rect x="${px((left + right) / 2 - label.length * 3.4 - 2)}" y="${y + 3}" width="${px(label.length * 6.8 + 4)}" height="${
          high - 6
        }" rx="2" fill="${fill}" pointer-events="none"${dim}/>`
        : "";
      marks.push(
        `${ground}<text x="${px((left + right) / 2)}" y="${
          y + high / 2 + 3.8
        }" text-anchor="middle" fill="${ink}" pointer-events="none" font-size="${high > 14 ? 11 : 9}"${dim}>${label}</text>`,
      );
    }
  });
  return marks;
}

/**
 * Of each stage what a device of it holds, all to one scale.
 * @param {GanttState} state
 * @param {{ x: Scale; width: number; top: number; high: number; last: number }} given
 * @returns {string[]}
 */
function drawMemory(state, { x, width, top, high, last }) {
  return state.memory.flatMap((moments, device) => {
    const y = top + device * (high + 3),
      base = y + high,
      level = (/** @type {number} */ bytes) => base - (high * bytes) / (state.most || 1);
    const points = moments.flatMap(([time, bytes], i) => {
      const next = moments[i + 1]?.[0] ?? state.seconds;
      return [[x(time), level(bytes)], [x(next), level(bytes)]];
    });
    const line = points.map(([a, b]) => `${px(Math.min(Math.max(a, GUTTER), width))},${px(b)}`).join(" ");
    return [
      `<text x="0" y="${y + high / 2 + 4}">${device} <tspan fill-opacity="0.9">${escaped(state.peaks[device])}</tspan></text>`,
      `<polygon points="${GUTTER},${base} ${line} ${px(Math.max(last, GUTTER))},${base}" fill="#A3B4CE" fill-opacity="0.55"/>`,
      `<polyline points="${line}" fill="none" stroke="#3B5A8C" stroke-width="1"/>`,
    ];
  });
}
