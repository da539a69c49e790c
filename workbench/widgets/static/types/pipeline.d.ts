/** The Pipeline tab, published by `stage_board.py`. */

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
  /** The first block of each piece but the first. */
  starts: number[];
  stages: number;
  chunks: number;
  pieces: { name: string; stage: number; skips: Skip[] }[];
  heads: StageHead[];
  skips: Skip[];
  even: string;
}

export interface Invitation {
  kind: "none";
  about: string;
  problem: Problem | null;
  button: string | null;
  /** Options if the hardware has no spare devices; then there is no single button. */
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

/** Neighbouring blocks merged because they are too low for labels. */
export interface Run {
  low: boolean;
  blocks: StageBlock[];
}
/** A boundary being dragged: its start, its legal range and its handlers. */
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
