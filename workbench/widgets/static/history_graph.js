// @ts-check
// The history tree as SVG: a lane per branch, a dot per plan.

import { svg } from "./dom.js";
/** @import { PlanNode } from "./types/states.d.ts" */

const ROW = 34, LANE = 14, MAX_LANES = 8; // pixels; further lanes share the last one

/**
 * @param {number} lane
 * @returns {number}
 */
export const laneX = (lane) => 12 + Math.min(lane, MAX_LANES - 1) * LANE;

/**
 * @param {number} place
 * @returns {number}
 */
const rowY = (place) => place * ROW + ROW / 2;

/**
 * Draws each plan as a dot with a line to its parent.
 * @param {PlanNode[]} nodes
 * @param {number} lanes
 * @returns {SVGElement}
 */
export function drawGraph(nodes, lanes) {
  const place = new Map(nodes.map((node, i) => [node.number, i]));
  const byNumber = new Map(nodes.map((node) => [node.number, node]));
  /** @param {PlanNode} node */
  const parentOf = (node) => (node.parent === null ? undefined : byNumber.get(node.parent));
  /** @param {PlanNode} node */
  const yOf = (node) => rowY(place.get(node.number) ?? 0);
  const trail = new Set();
  for (let node = nodes.find((candidate) => candidate.here); node; node = parentOf(node)) trail.add(node.number);
  const height = nodes.length * ROW;
  const lines = nodes.filter((node) => node.parent !== null).map((node) => {
    const x = laneX(node.lane), y = yOf(node), parent = parentOf(node);
    const to = parent ? [laneX(parent.lane), yOf(parent)] : [x, height];
    const bend = to[0] === x ? `L${x} ${to[1]}` : `L${x} ${to[1] - ROW / 2}Q${x} ${to[1]} ${to[0]} ${to[1]}`;
    return { path: `M${x} ${y}${bend}`, walked: trail.has(node.number) };
  });
  const dots = nodes.map((node) =>
    svg("circle", {
      cx: laneX(node.lane),
      cy: yOf(node),
      r: node.here ? 5 : 3.5,
      class: node.here ? "here" : trail.has(node.number) ? "walked" : "",
    })
  );
  const ordered = [...lines.filter((line) => !line.walked), ...lines.filter((line) => line.walked)];
  return svg(
    "svg",
    { width: laneX(lanes - 1) + 12, height, "aria-hidden": "true", class: "graph" },
    ...ordered.map((line) => svg("path", { d: line.path, class: line.walked ? "walked" : "" })),
    ...dots,
  );
}
