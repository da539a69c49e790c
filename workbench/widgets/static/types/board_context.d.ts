/** What the parts of a drawn board share, and what they are handed. Nothing here comes from Python; that is in the other files. */

import type { BoardState, Chip, Hardware, LiveState, Previews, Reasons, Refusal, TableState, Tools, TracedAs } from "./states.d.ts";
import type { BlockDrawers } from "./table_cells.d.ts";
import type { FleetBoard, FleetLive, FleetTable } from "./fleet.d.ts";

/** What is sent to Python: a verb and what it is about. */
export interface Gesture {
  verb: string;
  [field: string]: unknown;
}

/** A gesture on its way: from which view, and the how manyth of it. */
export type Sent = Gesture & { view: string; seq: number };

/** The model as both hosts have it. */
export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, listener: Listener): void;
  off(event: string, listener: Listener): void;
  /** Of a notebook: the script of BokehJS, which a served page has already. */
  library?(): Promise<string>;
}
/** A notebook's model, which also sends messages. */
export interface CellModel extends Model {
  send(message: object): void;
}
export type Listener = (...told: never[]) => unknown;

/** Somebody else in the room: the path that they selected, and the dimension in their hand; empty for none. */
export interface Colleague {
  name: string;
  colour: string;
  selected: string;
  hand: string;
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
/** Whichever of the two: what they have in common. */
export type AnyModel = PlanModel | FleetModel;

/** A chip of the tables: where it may go is asked of Python when it is taken. */
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
/** A chip of the board, or one of the tables. */
export type AnyChip = (Chip & { lazy?: undefined; nameless?: undefined }) | LazyChip;

/** The chip in hand. */
export interface Held {
  chip: AnyChip;
  by: "pointer" | "keyboard" | "click";
  /** The mesh axis under the hand, `""` for unsharded, `null` for nowhere. */
  target: string | null;
  add: boolean;
  only: boolean;
}

/** A menu, or a meaning, that is open, and what it hangs on. */
export interface OpenMenu {
  element: HTMLElement;
  anchor: Marked;
}

/** A menu that Python was asked for. */
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

/** By which column a table is sorted: 1 ascending, -1 descending. */
export interface Sorting {
  column: number;
  sign: number;
}

/** What happens on a board, and what those who listen are told of it. */
export interface BoardEvents {
  /** A chip of the board was let go over another axis; Python has not answered yet. */
  dropped: { chip: Chip; axis: string; add: boolean };
  /** Something else is selected than before. */
  selected: string;
  /** A mark of a picture that opens something was chosen. */
  opened: Marked;
  /** A row or a mark was chosen. */
  picked: Marked;
}

/** One board on the page: its elements, what is in the hand, and how to reach Python. */
export interface Wb {
  root: HTMLElement;
  card: HTMLElement;
  /** Names this sight of the board in every gesture. */
  view: string;
  send(gesture: Gesture): void;
  /** Tells Python what may be sent next; nothing answers. */
  expect(gesture: Gesture): void;
  /** Asks a notebook's kernel for the script of BokehJS. */
  library: (() => Promise<string>) | undefined;
  /** What its blocks show; `null` where it has none. */
  drawers: BlockDrawers | null;
  /** For a screen reader. */
  say(words: string): void;
  paint(): void;
  /** Tells all who listen, and says whether one of them has done what is to be done: whether one answered `true`. */
  publish<E extends keyof BoardEvents>(event: E, what: BoardEvents[E]): boolean;
  subscribe<E extends keyof BoardEvents>(event: E, listener: (what: BoardEvents[E]) => boolean | void): void;
  turnTheme(): void;
  toggleHelp(): void;
  theme: string;

  held: Held | null;
  /** While it is so, nothing is painted: a repaint would end the pointer's capture. */
  dragging: boolean;
  whileDragging: ((table: TableState) => void) | null;
  /** A drop on its way stays where the hand put it. */
  optimistic: boolean;
  /** The same of a boundary between stages. */
  placed: boolean;
  /** Whether a drop on a row changes that row alone. */
  only: boolean;
  foreseeing: number | undefined;
  /** What the drops of the chip in hand would do, as far as Python has said. */
  previews: Previews | null;
  /** For which chip and keys that was asked. */
  previewed: string;

  board: HTMLElement;
  chips: Map<string, Chip>;
  /** The mesh axes, `""` before them. */
  axes: string[];
  /** The place that takes the focus after the next paint. */
  wanted: string | null;

  menu: OpenMenu | null;
  asked: Asked | null;
  asker: { of: string; focus: Marked } | null;
  tour: Tour | null;
  layout: string | undefined;
  selected: string;
  /** What comes from the line that is selected. */
  linked: Set<string>;
  sorts: Map<string, Sorting>;
  wholeLayout: boolean;
  /** The tab that the focus goes to once it is open: its row, and what it opens. */
  focusTab: string;
}

/** The queue of gestures. */
export interface Outbox {
  view: string;
  begin(): void;
  send(gesture: Gesture): void;
  expect(gesture: Gesture): void;
  answered(answer: { view: string; seq: number } | undefined): void;
  refresh(): void;
  close(): void;
}

/** What was on its way when the connection was cut. */
export interface Kept {
  view: string;
  seq: number;
  tab: string | undefined;
  gestures: Sent[];
  board: string;
  at: number;
}

/** What an element may be made with: `class`, `data`, handlers, properties, attributes. */
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

/** A painter: it draws when what it is told differs from what it was told last. */
export type Paint<T> = (state: T, force?: boolean) => void;

/** A row, or a mark of a picture. */
export type Marked = HTMLElement | SVGElement;

/** What the head of a plan's card shows. */
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
