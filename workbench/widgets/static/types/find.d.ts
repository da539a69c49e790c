/** The tab Find as Python publishes it: blocks of the `table` part. */

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
  /** The row it stands in; empty beside the button. */
  group: string;
  options: { name: string; label: string }[];
}
export interface FindState {
  phase: string;
  running: boolean;
  label: string;
  fields: FindField[];
  line: string;
  fraction: number;
  gap: { best: string; text: string; share: number; proved: boolean } | null;
  /** Where the present plan stands. */
  present: string;
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
