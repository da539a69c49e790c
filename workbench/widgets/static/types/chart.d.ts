/** Charts as Python tells them (`visualize/charts`), and the little of BokehJS that is used of them. */

/** Columns of a data source. */
export type Columns = Record<string, unknown[]>;

export interface Lane {
  name: string;
  colour: string;
  bottom: number;
  top: number;
  /** Where its times are from. */
  tier: string;
  /** The tier that has the same spans. */
  other: string;
  /** Seconds that are 1 on the x axis where tiers have scales of their own; 0 where there is no other scale. */
  own: number;
  /** The opacity of them all. */
  weight: number;
}
/** What spans of one kind have in common; a colour where it is not that of the lane, a group where it is not their number. */
export type SpanStyle = [label: string, title: string, subject: string, weight: number, colour: string, group: string];
/** Spans as they are sent: arrays in base64. Of several parts those after the first have its styles. */
export interface SentSpans {
  lanes: Lane[];
  styles: SpanStyle[];
  firsts: number[];
  starts: string;
  seconds: string;
  kinds: string;
  unit: number;
  numbers: string | null;
  shares: string | null;
  hatched: string;
}
/** Spans of lane `i` are at `firsts[i]` to `firsts[i + 1]`, by their start. */
export interface Spans {
  lanes: Lane[];
  styles: SpanStyle[];
  firsts: number[];
  starts: Float64Array;
  seconds: Float32Array;
  kinds: Uint32Array;
  unit: number;
  /** What stands for `{number}` in their labels and titles, or -1. */
  numbers: Int32Array | null;
  /** How much of each is hatched, from its start; `hatched` says what that is. */
  shares: Float32Array | null;
  hatched: string;
  /** Whether each tier is drawn on a scale of its own. */
  own: boolean;
}
/** What of spans is seen: a part of the x axis on so many pixels. */
export interface Window {
  from: number;
  to: number;
  width: number;
}
/** Blocks that are drawn: of one span, or of neighbours too narrow to be seen alone, of which `spans` is the longest. */
export interface Blocks {
  left: number[];
  right: number[];
  lane: number[];
  span: number[];
  count: number[];
  seconds: number[];
  weight: number[];
}

export interface ChartState {
  item: unknown;
  version: string;
  /** The same for all charts that the same empty figure is of. */
  id: string;
  sources: Record<string, Columns>;
  ranges: Record<"x" | "y", [number, number]>;
  properties: Record<string, Record<string, unknown>>;
  key: [colour: string, name: string, hatched: boolean][];
  across: string;
  /** Whether tiers far from each other are drawn on scales of their own until somebody says otherwise. */
  rescales: boolean;
  spans: SentSpans[];
}

interface Signal {
  connect(slot: () => void): boolean;
  emit(): void;
}
/** Any model of Bokeh: of these each has some. */
export interface BokehModel {
  name: string | null;
  change: Signal;
  properties: Record<string, unknown>;
  setv(values: object): void;
  start: number;
  end: number;
  data: Record<string, ArrayLike<unknown>>;
  selected: BokehModel;
  inspected: BokehModel;
  inspect?: Signal;
  indices: number[];
  active: boolean;
  tooltips: unknown;
  height: number;
  inner_width: number;
  dimensions: string;
  toolbar: { tools: BokehModel[] };
  x_scale: { type: string };
  y_scale: { type: string };
  fill_color?: unknown;
  line_color?: unknown;
}
export interface BokehDocument {
  get_model_by_name(name: string): BokehModel | null;
  clear(): void;
  _all_models: Map<string, BokehModel>;
}
export interface BokehView {
  model: BokehModel & { document: BokehDocument };
  remove(): void;
}
export interface BokehModule {
  version: string;
  documents: BokehDocument[];
  embed: { embed_item(item: unknown, target: HTMLElement): Promise<{ roots: Iterable<BokehView> }> };
}

/** A chart in its place. */
export interface ShownChart {
  element: HTMLElement;
  /** As it was sent, and as it is shown: on which scale. */
  sent: ChartState;
  state: ChartState;
  /** Whether what was measured has a scale of its own; null until somebody says. */
  own: boolean | null;
  bokeh: BokehModule;
  view: BokehView | null;
  doc: BokehDocument | null;
  spans: Spans | null;
  /** What of them is drawn: the part of the axis, and its blocks. */
  drawn: Window | null;
  blocks: Blocks | null;
  /** The mark that the keyboard is at; of a timeline the span. */
  at: number;
  /** The group of the span under the pointer or the keyboard, of which all others stand back; or none. */
  group: string;
  /** While it is walked by key the pointer that rests on it points at nothing. */
  keyed: boolean;
  /** While it marks what is chosen itself, nothing was tapped. */
  marking: boolean;
  /** Its own height, and that of the place it has over the whole window, else 0. */
  height: number;
  room: number;
  frame: number;
  /** When names were placed last, while it moves. */
  named?: number;
  timer: number;
  act(index: number): void;
}
