/** The tab Find as Python publishes it: blocks of the `table` part. */

import type { Gesture } from "./board_context.d.ts";
import type { Act } from "./table_cells.d.ts";

export interface FindField {
  kind: "text" | "select" | "check";
  name: string;
  label: string;
  value: string | boolean;
  hint: string;
  /** Characters that a text field has room for. */
  width: number;
  title: string;
  /** The group of options it stands in; empty in the sentence. */
  group: string;
  options: { name: string; label: string }[];
}
export interface FindState {
  phase: string;
  running: boolean;
  label: string;
  fields: FindField[];
  /** What is over the options. */
  options: string;
  line: string;
  fraction: number;
  gap: { best: string; text: string; share: number; proved: boolean } | null;
  /** Where the present plan stands. */
  present: string;
  /** Buttons that fix a decision of the present plan. */
  pins: Act[];
  message: string;
  tone: string;
  ways_out: string[];
  acts: Act[];
  said: string;
}
export interface FoundCard {
  title: string;
  text: string;
  /** The parts of its step. */
  parts: string;
  /** Whether it is the present plan. */
  present: boolean;
  acts: Act[];
  than: { label: string; verb: string; plan: string; value: string; options: { name: string; label: string }[] };
  waiting: string;
}
/** Over the rows: what each shows under the pointer, and the gesture of a click on it, by its number. */
export interface FoundRows {
  hint: string;
  previews: Record<string, { title: string; text: string; changes: string }>;
  gestures: Record<string, Gesture>;
}
export interface FoundState {
  card?: FoundCard;
  rows?: FoundRows;
}
