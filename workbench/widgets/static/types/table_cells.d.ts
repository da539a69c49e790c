/** Tables published by `table_blocks.py` and its users. */

import type { ChartState } from "./chart.d.ts";
import type { Gesture, Wb } from "./board_context.d.ts";
import type { FindState, FoundState } from "./find.d.ts";
import type { PipelineTab } from "./pipeline.d.ts";

export interface AxisTag {
  name: string;
  colour: number | null;
}
export interface Mark {
  text: string;
  title: string;
}
export interface Tag {
  label: string;
  title: string;
  gesture: Gesture;
}

/** Options of any cell: its neighbour in a stack, and its tooltip. */
interface Beside {
  title?: string;
  tone?: string;
  wrap?: boolean;
  lead?: string;
  beside?: string;
}
export interface TextCell extends Beside {
  text: string;
}
export interface AskedCell extends TextCell {
  why: string;
}
export interface LineCell extends TextCell {
  line: string;
  rank: number;
}
export interface ShareCell extends Beside {
  share: number;
  shade: number | string;
  text: string;
}
export interface ActsCell extends Beside {
  text?: string;
  acts: Act[];
}
/** A button for a gesture; `focus` identifies it where its label occurs more than once. */
export interface Act {
  label: string;
  title?: string;
  focus?: string;
  gesture: Gesture & { of?: string };
}
export interface PathCell extends Beside {
  path: string;
  count?: string;
}
export interface DimsCell extends Beside {
  dims: { name: string; title: string; colours: (number | null)[] }[];
}
export interface AxesCell extends Beside {
  axes: AxisTag[];
}
export interface EditsCell extends Beside {
  edits: string[];
}
export interface TermsCell extends Beside {
  terms: string[];
}
export interface StackCell extends Beside {
  stack: Cell[];
}
export interface PairCell extends Beside {
  pair: [number, number];
}
export interface Remedy {
  edit: string;
  note: string;
  tone: string;
  title: string;
  held?: string;
  held_tone?: string;
}
export interface RemediesCell extends Beside {
  key: string;
  about: string;
  remedies: Remedy[];
  find: string;
}
/** One dimension of a tensor, which can be dragged. */
export interface Dimension {
  place: number;
  dim: string;
  label: string;
  axes: AxisTag[];
  title: string;
  marks: Mark[];
}
export interface ChipsCell extends Beside {
  chips: Dimension[];
  of: string;
  path: string;
  own: string;
  given: string;
  tags?: Tag[];
}
export type CellState =
  | TextCell
  | AskedCell
  | LineCell
  | ShareCell
  | ActsCell
  | PathCell
  | DimsCell
  | AxesCell
  | EditsCell
  | TermsCell
  | StackCell
  | PairCell
  | RemediesCell
  | ChipsCell;
export type Cell = string | CellState;

export interface Fold {
  key: string;
  open: boolean;
}
export interface Row {
  key: string;
  cells: Cell[];
  subject: string;
  tone: string;
  /** Present if rows can be folded, `null` for a row that cannot. */
  fold?: Fold | null;
  level?: number;
  section?: { title: string; note: string };
}
export interface Column {
  label: string;
  number: boolean;
  title: string;
}

/** A picture; null fields are sent on request by name. */
export interface Picture {
  svg: string | null;
  text: string | null;
  name: string;
  about?: string;
  opens?: { verb: string; field: string } | null;
  charts?: ChartState[];
}
export interface ReplayLine {
  direction: "forward" | "backward" | "across";
  axis: AxisTag;
  from: string;
  to: string;
  over: string;
  subject: string;
}
export interface ReplaySteps {
  waiting?: undefined;
  step: number;
  last: number;
  stride: number;
  lines: ReplayLine[];
  more: string;
  start: string;
  said: string;
  conflicts: string;
}
export type Replay = ReplaySteps | { waiting: string };

export interface Block {
  title: string;
  columns: Column[];
  rows: Row[];
  note: string;
  controls?: { label: string; name: string }[];
  picture: Picture | null;
  /** The tab that also shows it, where it is not repeated. */
  in_tab?: string;
  picker?: { options: { value: string; label: string }[]; chosen: string };
  replay?: Replay;
  stages?: PipelineTab;
  find?: FindState;
  found?: FoundState;
}

/** Block content outside its table: the field of its state, the class of its element, and its painter. */
export interface BlockPart {
  field: "picker" | "replay" | "picture" | "stages" | "find" | "found";
  place: string;
  paint(wb: Wb, place: HTMLElement, block: Block): void;
}
/** Block content drawn by higher layers: draggable cells and extra parts. */
export interface BlockDrawers {
  chips(wb: Wb, cell: ChipsCell): Node;
  line(wb: Wb, cell: LineCell): Node;
  parts: BlockPart[];
  /** Removes a picture that is no longer shown, from Bokeh too. */
  removePicture(place: Element): void;
}

export interface Ask {
  label: string;
  value: string;
  verb: string;
  options?: string[];
}
export interface MenuItem {
  heading?: undefined;
  choices?: undefined;
  label: string;
  gesture: Gesture;
  note?: string;
  reason?: string | null;
  ask?: Ask | null;
}
export interface MenuChoices {
  heading?: undefined;
  choices: string;
  options: { label: string; gesture: Gesture; reason: string | null; checked: boolean }[];
  many: boolean;
}
export interface MenuHeading {
  heading: string;
}
export type MenuEntry = MenuItem | MenuChoices | MenuHeading;
