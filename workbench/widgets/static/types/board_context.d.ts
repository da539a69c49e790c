/** Types that the parts of a board share. Data published by Python is typed in the other files. */

import type { BoardState, Chip, Hardware, LiveState, Previews, Reasons, Refusal, TableState, Tools, TracedAs } from "./states.d.ts";
import type { BlockDrawers } from "./table_cells.d.ts";
import type { FleetBoard, FleetLive, FleetTable } from "./fleet.d.ts";

/** A message to Python: a verb and its arguments. */
export interface Gesture {
  verb: string;
  [field: string]: unknown;
}

/** A queued gesture, with its view and its sequence number. */
export type Sent = Gesture & { view: string; seq: number };

/** The model interface that both hosts implement. */
export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, listener: Listener): void;
  off(event: string, listener: Listener): void;
  /** Notebooks only: loads the BokehJS script, which served pages include. */
  library?(): Promise<string>;
}
/** A notebook's model, which also sends messages. */
export interface CellModel extends Model {
  send(message: object): void;
}
export type Listener = (...told: never[]) => unknown;

/** Another user in the room: the path they selected and the dimension they hold; empty for none. */
export interface Colleague {
  name: string;
  colour: string;
  selected: string;
  hand: string;
  /** The dimension that the room's last edit moved, if it was theirs. */
  moved: string;
}
interface Traits {
  colleagues?: Colleague[];
  theme: string;
  tour: boolean;
  gesture: Gesture;
}
interface PlanTraits extends Traits {
  board: BoardState;
  table: TableState;
  live: LiveState;
}
interface FleetTraits extends Traits {
  board: FleetBoard;
  table: FleetTable;
  live: FleetLive;
}

/** A model whose parts are objects. */
export interface TypedModel<T> extends Model {
  get<K extends keyof T & string>(name: K): T[K];
}
export type PlanModel = TypedModel<PlanTraits>;
export type FleetModel = TypedModel<FleetTraits>;
/** The common interface of both models. */
export type AnyModel = PlanModel | FleetModel;

/** A chip in a table: its legal targets are requested from Python when it is picked up. */
export interface LazyChip {
  lazy: true;
  key: string;
  of: string;
  path: string;
  rank: number;
  place: number;
  source: string;
  dim: string;
  rule: string;
  nameless: boolean;
  illegal: Reasons;
}
/** A chip of the board or of a table. */
export type AnyChip = (Chip & { lazy?: undefined; nameless?: undefined }) | LazyChip;

/** The chip in hand. */
export interface Held {
  chip: AnyChip;
  by: "pointer" | "keyboard" | "click";
  /** The target mesh axis, `""` for unsharded, `null` outside all zones. */
  target: string | null;
  add: boolean;
  only: boolean;
}

/** An open menu or glossary entry, with its anchor. */
export interface OpenMenu {
  element: HTMLElement;
  anchor: Marked;
}

/** A menu requested from Python. */
export interface Asked {
  key: string;
  anchor: Marked;
  find?: () => Marked | null | undefined;
}

export interface Tour {
  element: HTMLElement;
  target: Element;
  step: number;
  layout: string | undefined;
}

/** The sorted column of a table: 1 ascending, -1 descending. */
export interface Sorting {
  column: number;
  sign: number;
}

/** The events of a board, with their payloads. */
export interface BoardEvents {
  /** A chip was dropped on another axis; Python has not answered yet. */
  dropped: { chip: Chip; axis: string; add: boolean };
  /** The selection has changed. */
  selected: string;
  /** A picture mark with a link was activated. */
  opened: Marked;
  /** A row or a mark was activated. */
  picked: Marked;
}

/** One board on the page: its elements, the chip in hand and the connection to Python. */
export interface Wb {
  root: HTMLElement;
  card: HTMLElement;
  /** Identifies this view of the board in every gesture. */
  view: string;
  send(gesture: Gesture): void;
  /** Announces a likely gesture to Python; there is no answer. */
  expect(gesture: Gesture): void;
  /** Requests the BokehJS script from a notebook's kernel. */
  library: (() => Promise<string>) | undefined;
  /** The drawers of block content; `null` if there are none. */
  drawers: BlockDrawers | null;
  /** Announces text to screen readers. */
  say(words: string): void;
  paint(): void;
  /** Calls all subscribers; returns whether any of them handled the event by returning `true`. */
  publish<E extends keyof BoardEvents>(event: E, what: BoardEvents[E]): boolean;
  subscribe<E extends keyof BoardEvents>(event: E, listener: (what: BoardEvents[E]) => boolean | void): void;
  turnTheme(): void;
  toggleHelp(): void;
  theme: string;

  held: Held | null;
  /** While true, nothing is painted: a repaint would end the pointer capture. */
  dragging: boolean;
  whileDragging: ((table: TableState) => void) | null;
  /** A pending drop stays where the user put it. */
  optimistic: boolean;
  /** The same for a boundary between stages. */
  placed: boolean;
  /** Whether a drop on a row changes only that row. */
  only: boolean;
  foreseeing: number | undefined;
  /** Previews of drops of the chip in hand that Python has sent. */
  previews: Previews | null;

  board: HTMLElement;
  chips: Map<string, Chip>;
  /** The mesh axes, preceded by `""`. */
  axes: string[];
  /** The element to focus after the next paint. */
  wanted: string | null;

  menu: OpenMenu | null;
  asked: Asked | null;
  asker: { of: string; focus: Marked } | null;
  tour: Tour | null;
  layout: string | undefined;
  selected: string;
  /** The paths produced by the selected line. */
  linked: Set<string>;
  sorts: Map<string, Sorting>;
  wholeLayout: boolean;
  /** The tab to focus once it is open: its row and its key. */
  focusTab: string;
}

/** The gesture queue. */
export interface Outbox {
  view: string;
  begin(): void;
  send(gesture: Gesture): void;
  expect(gesture: Gesture): void;
  answered(answer: { view: string; seq: number } | undefined): void;
  refresh(): void;
  close(): void;
}

/** The gestures pending when the connection was lost. */
export interface Kept {
  view: string;
  seq: number;
  tab: string | undefined;
  gestures: Sent[];
  board: string;
  at: number;
}

/** Arguments of `h`: `class`, `data`, handlers, properties, attributes. */
export interface Props {
  class?: string;
  data?: Record<string, string | number | boolean | null | undefined>;
  onclick?: (event: MouseEvent) => void;
  onpointerdown?: (event: PointerEvent) => void;
  onpointerenter?: (event: PointerEvent) => void;
  onkeydown?: (event: KeyboardEvent) => void;
  onfocus?: (event: FocusEvent) => void;
  onblur?: (event: FocusEvent) => void;
  oninput?: (event: Event) => void;
  onchange?: (event: Event) => void;
  onsubmit?: (event: SubmitEvent) => void;
  [name: string]: unknown;
}
export type Kid = Node | string | null | undefined;

/** A painter, which draws only when its state has changed. */
export type Paint<T> = (state: T, force?: boolean) => void;

/** A row, or a mark of a picture. */
export type Marked = HTMLElement | SVGElement;

/** The state of a plan's card header. */
export interface HeadState {
  name: string;
  mesh: string;
  devices: string;
  layout: string;
  undo: string | null;
  redo: string | null;
  program: TracedAs;
  hardware: Hardware;
  tools: Tools;
  refusal: Refusal | null;
}
