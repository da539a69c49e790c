/** Charts published by Python (`visualize/charts`), and the part of BokehJS that they use. */

/** Columns of a data source. */
export type Columns = Record<string, unknown[]>;

export interface Lane {
  name: string;
  colour: string;
  bottom: number;
  top: number;
  /** The tier of its times. */
  tier: string;
  /** The tier with the same spans. */
  other: string;
  /** Seconds per x-axis unit when tiers have their own scales; 0 if there is no other scale. */
  own: number;
  /** The opacity of all its spans. */
  weight: number;
}
/** Properties of spans of one kind; a colour if it differs from the lane's, a group if it is not their number. */
export type SpanStyle = [label: string, title: string, subject: string, weight: number, colour: string, group: string];
/** Spans as sent: arrays in base64. Parts after the first use its styles. */
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
/** Spans of lane `i` are at `firsts[i]` to `firsts[i + 1]`, sorted by start. */
export interface Spans {
  lanes: Lane[];
  styles: SpanStyle[];
  firsts: number[];
  starts: Float64Array;
  seconds: Float32Array;
  kinds: Uint32Array;
  unit: number;
  /** The value of `{number}` in labels and titles, or -1. */
  numbers: Int32Array | null;
  /** The hatched fraction of each span, from its start; `hatched` names its meaning. */
  shares: Float32Array | null;
  hatched: string;
  /** Whether each tier is drawn on its own scale. */
  own: boolean;
}
/** The visible window: a range of the x axis and its width in pixels. */
export interface Window {
  from: number;
  to: number;
  width: number;
}
/** Drawn blocks: one span, or several merged narrow ones, of which `span` is the longest. */
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
  /** Equal for all charts of the same empty figure. */
  id: string;
  sources: Record<string, Columns>;
  ranges: Record<"x" | "y", [number, number]>;
  properties: Record<string, Record<string, unknown>>;
  key: [colour: string, name: string, hatched: boolean][];
  across: string;
  /** Whether tiers with very different times default to their own scales. */
  rescales: boolean;
  spans: SentSpans[];
}

interface Signal {
  connect(slot: () => void): boolean;
  emit(): void;
}
/** Any Bokeh model; each has some of these properties. */
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

/** A chart on the page. */
export interface ShownChart {
  element: HTMLElement;
  /** The state as sent, and as shown with its scale. */
  sent: ChartState;
  state: ChartState;
  /** Whether measured times have their own scale; null until the user decides. */
  own: boolean | null;
  bokeh: BokehModule;
  view: BokehView | null;
  doc: BokehDocument | null;
  spans: Spans | null;
  /** The drawn range and its blocks. */
  drawn: Window | null;
  blocks: Blocks | null;
  /** The mark at the keyboard position; in a timeline, the span. */
  at: number;
  /** The highlighted group, under the pointer or the keyboard; all others are dimmed. */
  group: string;
  /** Whether keyboard navigation is active, which disables hover. */
  keyed: boolean;
  /** Set while the board marks the selection, to ignore tap events. */
  marking: boolean;
  /** Default height, and height of the full-window container, or 0. */
  height: number;
  room: number;
  frame: number;
  /** The time of the last label layout during a pan. */
  named?: number;
  timer: number;
  act(index: number): void;
}
