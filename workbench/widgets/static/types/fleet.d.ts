/** The parts of a fleet's board as Python publishes them: `forecast_state.py`, `fleet_timeline.py`, `fleet_run_panel.py`. */

import type { ChartState } from "./pipeline.d.ts";
import type { Answer, Refusal, Toned, Work } from "./states.d.ts";

export interface FleetControls {
  policy: string;
  policies: { name: string; about: string; text: string }[];
  memory: string;
  devices: string;
  /** As it is written, `8 H100`; empty for what is attached. */
  hardware: string;
  planned_for: string;
  fewer: boolean;
  more: boolean;
  /** Fields whose text was refused. */
  wrong: string[];
  room: string;
}
export interface FleetTiming {
  phase: string;
  stage: string;
  message: string;
  can_time: boolean;
}
export interface FleetFigure {
  key: string;
  label: string;
  text: string;
  note: string;
  tiers: { label: string; text: string; note: string }[];
  delta: Toned | null;
}
export interface FleetModelRow {
  key: string;
  number: string;
  colour: number;
  name: string;
  program: string;
  arguments: string[];
  epochs: string;
  epochs_title: string;
  stops: string;
  shards: { share: number; title: string }[];
  shards_text: string;
  seconds: string;
  seconds_title: string;
}
export interface Way {
  key: string;
  kind: string;
  label: string;
  text: string;
  ratio: string;
  share: number;
  note: string;
}
export interface FleetBoard {
  kind: "fleet";
  name: string;
  path: string;
  devices: string;
  controls: FleetControls;
  locked: boolean;
  waits: boolean;
  refusal: Refusal | null;
  problem: Refusal | null;
  doubt: string;
  timing: FleetTiming;
  figures: FleetFigure[];
  columns: string[];
  models: FleetModelRow[];
  ways: Way[];
  command: string;
  said: string;
  answer: Answer;
  told: unknown;
}

/** Device, start, end, model, unit, load, lost; a slice of many units has the share it begins and ends at, and how many begin in it. */
export type Unit = [
  device: number,
  start: number,
  end: number,
  model: number,
  unit: number,
  load: number,
  lost: number,
  ...slice: number[],
];
export interface UnitModel {
  name: string;
  number: string;
  fill: string;
  ink: string;
  units: { says: string; weak: boolean }[];
}
/** As it is sent: the units as one text. */
export interface FleetTimeline extends Omit<ChartState, "lasted"> {
  bound: number;
  bound_text: string;
  models: UnitModel[];
  tasks: string;
}
/** As it is drawn, with what has run and what is still expected. */
export interface FleetChart extends ChartState {
  bound: number;
  bound_text: string;
  models: UnitModel[];
  tasks: Unit[];
  measured: Unit[];
  expected: Unit[];
  ran: number;
}
export interface FleetTable {
  tab?: undefined;
  timeline: FleetTimeline | null;
  seq: number;
  told: unknown;
}

export interface ModelLive {
  state: string;
  share: number;
  batches: string;
  loss: string;
  loss_title: string;
  can_stop: boolean;
}
export interface LossLine {
  key: string;
  number: string;
  colour: number;
  /** The colours begin again. */
  again: boolean;
  points: [number, number][];
  told: string[];
  at: number[];
  last: string;
}
export interface Losses {
  lines: LossLine[];
  high: string;
  low: string;
  first: string;
  end: string;
}
export interface FleetLive extends Work {
  can_run: boolean;
  known: boolean;
  models: Record<string, ModelLive>;
  losses: Losses | null;
  away: number[];
  measured: string;
  lasted: number;
  expected: string;
  expects: number;
  stale: string;
  told: unknown;
}
