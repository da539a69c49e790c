// @ts-check
// The tree of plans as lines and dots.

import { seen } from "./page.js";
import { deepEqual, equal } from "./assert.js";
import { drawGraph, laneX } from "../../workbench/widgets/static/history_graph.js";
/** @import { PlanNode } from "../../workbench/widgets/static/types/states.d.ts" */

/**
 * @param {number} number
 * @param {number | null} parent
 * @param {number} lane
 * @param {boolean} [here]
 * @returns {PlanNode}
 */
const node = (number, parent, lane, here = false) => ({
  ...{ key: `${number}`, number, parent, lane, here },
  ...{ edit: "", name: "", pinned: false, picked: "", figures: [], title: "" },
});

/**
 * @param {PlanNode[]} nodes latest first
 * @param {number} lanes
 */
function drawn(nodes, lanes) {
  const kids = seen(drawGraph(nodes, lanes)).children;
  const paths = kids.filter((each) => each.tag === "path").map(({ attributes }) => [attributes.d, attributes.class]);
  const dots = kids.filter((each) => each.tag === "circle").map(({ attributes }) => [attributes.cx, attributes.cy, attributes.class]);
  return { paths, dots };
}

Deno.test("a plan lies in the lane of its branch; far branches share the last lane", () => {
  equal(laneX(1) - laneX(0), 14);
  equal(laneX(7), laneX(40));
});

Deno.test("a line goes down the lane to the plan it was made of; the way to this plan is marked, and so is this plan", () => {
  const { paths, dots } = drawn([node(1, 0, 0, true), node(0, null, 0)], 1);
  deepEqual(paths, [["M12 17L12 51", "walked"]]);
  deepEqual(dots, [["12", "17", "here"], ["12", "51", "walked"]]);
});

Deno.test("a branch bends into the lane it left, and lies under the way to this plan", () => {
  const { paths, dots } = drawn([node(2, 0, 1), node(1, 0, 0, true), node(0, null, 0)], 2);
  deepEqual(paths, [["M26 17L26 68Q26 85 12 85", ""], ["M12 51L12 85", "walked"]]);
  deepEqual(dots.map(([, , kind]) => kind), ["", "here", "walked"]);
});

Deno.test("a plan whose parent is no longer told of has a line to the end of the drawing", () => {
  deepEqual(drawn([node(9, 4, 0, true), node(8, 5, 0)], 1).paths, [["M12 51L12 68", ""], ["M12 17L12 68", "walked"]]);
});
