/** The start panel and the model size strip, published in `board`. */

import type { Problem } from "./states.d.ts";

/** Work in progress, and its age when this was published. */
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
  /** The command that starts the server with this module allowed. */
  command: string;
  /** The code that turns a loss into a plan. */
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
  total: string;
  decode: boolean;
  machines: string[];
  /** Whether this machine can be measured. */
  attached: boolean;
  work: Waiting | null;
  answer: SizingAnswer | null;
  problem: Problem | null;
  /** What a question still needs; empty if nothing. */
  missing: string;
  zoo: ZooCard[];
  abouts: Record<string, string>;
  functions: FolderFunction[];
  configs: { key: string; about: string }[];
  recent: { label: string; link: string }[];
  /** Lessons opened by this server, with their questions and correct answers. */
  lessons: { course: string; lessons: { title: string; link: string; right: number; questions: number }[] }[];
  only_lessons: boolean;
}
export type StartState = OpenStart | { open: false };

export interface SizeField {
  name: string;
  kind: "number" | "choice" | "flag" | "text";
  value: string;
  options: string[];
  /** The stops of the slider; empty for a size without one. */
  stops: string[];
  hint: string;
}
export interface ModelState {
  title: string;
  sizes: SizeField[];
  work: Waiting | null;
  names: { name: string; size: string; reason: string }[];
}
