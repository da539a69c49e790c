/** The tab Pipeline as Python tells it: `stage_board.py`; and charts over time: `fleet_timeline.py`. */

import type { Problem } from "./states.d.ts";
import type { Block } from "./table_cells.d.ts";

export interface Control {
  key: string;
  label: string;
  value: string;
  kind: "number" | "select" | "menu" | "slider" | "choice";
  options: { value: string; label: string; note: string }[];
  most: number;
}
export interface StageFigure {
  key: string;
  label: string;
  text: string;
  note: string;
  tone: string;
}
export interface BalanceWay {
  key: string;
  label: string;
  note: string;
  on: boolean;
}
export interface StageBlock {
  path: string;
  /** The path with `*` for layer numbers. */
  alike: string;
  /** 1 is an even share of the work. */
  height: number;
  title: string;
}
export interface Skip {
  from: string;
  to: string;
  text: string;
  a: number;
  b: number;
}
export interface StageHead {
  name: string;
  facts: { label: string; text: string; title: string; tone: string }[];
}
export interface StageBoard {
  blocks: StageBlock[];
  /** Of each piece but the first, the place of its first block. */
  starts: number[];
  stages: number;
  chunks: number;
  pieces: { name: string; stage: number; skips: Skip[] }[];
  heads: StageHead[];
  skips: Skip[];
  even: string;
}

/** What any chart over time is told. */
export interface ChartState {
  devices: number;
  seconds: number;
  lasted: number;
  far: boolean;
  about: string;
  note: string;
  difference: string;
  text: string;
}
/** What of a chart is seen: `from` and `to` in seconds; with `own`, the measured step is as long as the predicted one. */
export interface Sight<T> {
  from: number;
  to: number;
  width: number;
  own: boolean;
  chosen: T | null;
}
/** Device, start, end, and what else a chart says of a task. */
export type AnyTask = [device: number, start: number, end: number, ...more: number[]];
/** A state with its tasks: predicted, measured, and those that are still expected. */
export interface Drawn<T> extends ChartState {
  tasks: T[];
  measured: T[];
  expected?: T[];
}
/** What a chart over time is of; the drawing, the words and the key are its own, zooming and walking are the same. */
export interface Chart<S extends Drawn<T>, T extends AnyTask> {
  title: string;
  name: string;
  draw(state: S, sight: Sight<T>): string;
  tell(state: S, task: T): string;
  key(state: S): Node[];
  /** The task that was chosen, in a newer state. */
  again(chosen: T | null, before: S | null, next: S): T | null;
}

export interface Invitation {
  kind: "none";
  about: string;
  problem: Problem | null;
  button: string | null;
  /** Ways to choose among where the hardware has no devices to spare; then there is no one button. */
  choices: { value: string; label: string; note: string }[];
}
export interface BrokenPipeline {
  kind: "broken";
  problem: Problem;
  controls: Control[];
}
export interface PipelineState {
  kind: "pipeline";
  controls: Control[];
  nominal: string;
  figures: StageFigure[];
  balances: BalanceWay[];
  board: StageBoard;
}
export type PipelineTab = Invitation | BrokenPipeline | PipelineState;

/** Neighbouring blocks that are drawn as one where they are too low for a name of their own. */
export interface Run {
  low: boolean;
  blocks: StageBlock[];
}
/** A boundary that is being dragged: where its piece begins and may begin, and what is done with it. */
export interface BoundaryInHand {
  piece: number;
  state: StageBoard;
  start(): number;
  bounds(): [least: number, most: number];
  move(to: number): boolean;
  send(): void;
  restore(): void;
  preview(blocks: Block[]): void;
}
/** The place on the screen of a time in seconds. */
export type Scale = (time: number) => number;
/** Where the tasks of a chart are drawn: the top of a device's row, its height, and how much longer than told they are. */
export interface Lane<T> {
  x: Scale;
  width: number;
  chosen: T | null;
  at: (device: number) => number;
  high: number;
  stretch: number;
}
/** The part of a chart that is seen, as shares of the whole. */
export type Seen = [from: number, to: number];
