// @ts-check
// What of a chart over time is seen, and which task is beside which: arithmetic alone.

/** @import { AnyTask, Drawn, Seen } from "./types/pipeline.d.ts" */

const LEAST_PART = 1e-4; // of the whole: no closer

/**
 * The part from `a` to `b` of a whole from 0 to 1, moved and cut so that it lies within.
 * @param {number} a
 * @param {number} b
 * @returns {Seen}
 */
function within(a, b) {
  const wide = Math.min(1, Math.max(LEAST_PART, b - a)), from = Math.min(Math.max(0, a), 1 - wide);
  return [from, from + wide];
}

/**
 * A part made narrower or wider about a place in it that stays where it is; `at` is a share of the part.
 * @param {Seen} seen
 * @param {number} factor
 * @param {number} [at]
 * @returns {Seen}
 */
export function zoomed([from, to], factor, at = 0.5) {
  const middle = from + (to - from) * at, wide = (to - from) * factor;
  return within(middle - wide * at, middle + wide * (1 - at));
}

/**
 * A part moved by a share of its own width.
 * @param {Seen} seen
 * @param {number} share
 * @returns {Seen}
 */
export const panned = ([from, to], share) => within(from + share * (to - from), to + share * (to - from));

/**
 * The part of the same width with a task in its middle, if the task is not all in sight.
 * @param {Seen} seen
 * @param {AnyTask} task
 * @param {number} whole
 * @returns {Seen}
 */
export function follow(seen, [, start, end], whole) {
  const [from, to] = seen, middle = (start + end) / 2 / whole, half = (to - from) / 2;
  return start / whole < from || end / whole > to ? within(middle - half, middle + half) : seen;
}

/**
 * The task before or behind the chosen one on its device (`by`), or the one that begins nearest to it on the next device (`down`).
 * @template {AnyTask} T
 * @param {Pick<Drawn<T>, "devices" | "tasks">} state
 * @param {T | null} chosen
 * @param {number} by
 * @param {number} down
 * @returns {T | null}
 */
export function taskBeside(state, chosen, by, down) {
  const now = chosen ?? state.tasks[0];
  if (!now) return null;
  const device = chosen ? (now[0] + down + state.devices) % state.devices : 0;
  const row = state.tasks.filter((task) => task[0] === device);
  if (!down && chosen) return row[Math.min(row.length - 1, Math.max(0, row.indexOf(now) + by))] ?? null;
  return row.reduce((best, task) => (Math.abs(task[1] - now[1]) < Math.abs(best[1] - now[1]) ? task : best), row[0]) ?? null;
}

/**
 * The task that a mark of the drawing is of.
 * @template {AnyTask} T
 * @param {Pick<Drawn<T>, "tasks" | "measured" | "expected">} state
 * @param {string} mark such as `tasks 12`
 * @returns {T | null}
 */
export function taskOf(state, mark) {
  const [which, place] = mark.split(" ");
  const tasks = which === "measured" ? state.measured : which === "expected" ? state.expected : which === "tasks" ? state.tasks : undefined;
  return tasks?.[Number(place)] ?? null;
}
