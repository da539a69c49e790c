/** The start panel and the strip of the model's sizes, as Python publishes them in `board`. */

import type { Problem } from "./states.d.ts";

/** Work under way, and for how long when this was published. */
export interface Waiting {
  phase: string;
  seconds: number;
}
export interface ZooCard {
  key: string;
  title: string;
  model: string;
  size: string;
}
export interface FolderFunction {
  key: string;
  builder: boolean;
  allowed: boolean;
  /** How the server is started so that it is allowed. */
  command: string;
  /** What a loss still needs. */
  lines: string;
}
export interface LayoutRow {
  goal: string;
  label: string;
  cells: { label: string; text: string }[];
}
export interface SizingAnswer {
  headline: string;
  tone: "good" | "bad";
  rows: LayoutRow[];
  notes: string[];
}
export interface OpenStart {
  open: true;
  model: { key: string; title: string; about: string; sized: boolean } | null;
  on: string;
  batch: string;
  tokens: string;
  decode: boolean;
  machines: string[];
  /** Whether this machine can be measured. */
  attached: boolean;
  work: Waiting | null;
  answer: SizingAnswer | null;
  problem: Problem | null;
  zoo: ZooCard[];
  abouts: Record<string, string>;
  functions: FolderFunction[];
  recent: { label: string; link: string }[];
  lessons: { course: string; lessons: { title: string; link: string }[] }[];
}
export type StartState = OpenStart | { open: false };

export interface SizeField {
  name: string;
  kind: "number" | "choice" | "flag" | "text";
  value: string;
  options: string[];
  /** Where a slider stops; empty for a size without one. */
  stops: string[];
  hint: string;
}
export interface ModelState {
  title: string;
  sizes: SizeField[];
  work: Waiting | null;
  names: { name: string; size: string; reason: string }[];
}
