/** The parts of a fleet's board published by `forecast_state.py` and `fleet_run_panel.py`. */

import type { ChartState } from "./chart.d.ts";
import type { Answer, Refusal, Toned, Work } from "./states.d.ts";
import type { Block } from "./table_cells.d.ts";

export interface FleetControls {
  policy: string;
  policies: { name: string; about: string; text: string }[];
  memory: string;
  devices: string;
  /** As typed, e.g. `8 H100`; empty for attached devices. */
  hardware: string;
  planned_for: string;
  fewer: boolean;
  more: boolean;
  /** Fields whose text was rejected. */
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
  revision?: undefined;
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

/** The predicted schedule, with a note on how it is drawn. */
export type FleetTimeline = Pick<Block, "picture" | "note"> & { devices: number; of: string };
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
  /** The colours repeat. */
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
  /** Since the start of the run; the browser counts on. */
  seconds: number;
  /** The estimated time left; empty before the first unit. */
  left: string;
  known: boolean;
  models: Record<string, ModelLive>;
  losses: Losses | null;
  away: number[];
  /** The executed part of the schedule's chart: its spans are appended, its other parts replace those of the chart. */
  ran: (Pick<ChartState, "spans" | "sources" | "ranges" | "properties" | "key"> & { of: string }) | null;
  stale: string;
  told: unknown;
}
