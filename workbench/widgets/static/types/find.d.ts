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
  message: string;
  tone: string;
  ways_out: string[];
  acts: Act[];
  said: string;
}
export interface FoundCard {
  title: string;
  text: string;
  acts: Act[];
  than: { label: string; verb: string; plan: string; value: string; options: { name: string; label: string }[] };
  waiting: string;
}
