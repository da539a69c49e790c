/** The parts of a plan's board: `board`, `table` and `live`. */

import type { ModelState, StartState } from "./start.d.ts";
import type { LessonBlock, LessonState } from "./lesson.d.ts";
import type { Block, Mark, MenuEntry, MenuItem } from "./table_cells.d.ts";

export interface Answer {
  view: string;
  seq: number;
}
export interface Problem {
  message: string;
  ways_out: string[];
}
/** The previews of a drop of the chip in hand, by zone; `key` is that of the request. */
export interface Previews {
  key: string;
  zones: Record<string, { note: string; tone: string; changes: { label: string; text: string; tone: string; note: string }[] }>;
}
export interface Refusal extends Problem {
  zone: string;
  /** Edits that achieve the same goal. */
  edits?: string[];
}

/** Why a chip may not be dropped on an axis: by a move, or by adding the axis. */
export type Barred = Record<string, { move?: string; add?: string }>;
/** The same for a drop that edits the rule, and for one on this tensor alone. */
export interface Reasons {
  rule: Barred;
  only: Barred;
}
export interface Chip {
  key: string;
  dim: string;
  source: string;
  size: string;
  order: string;
  carried: string;
  title: string;
  illegal: Barred;
  marks: Mark[];
  menu: MenuEntry[];
}
export interface Zone {
  /** `""` is the zone of unsharded dimensions. */
  axis: string;
  title: string;
  colour: number | null;
  size: string | null;
  hint: string;
  chips: Chip[];
  menu: MenuEntry[];
}
/** A zone in the row of drop targets above a table. */
export type Target = Pick<Zone, "axis" | "title" | "colour" | "size">;
export interface DeviceCount {
  text: string;
  tone: string;
  title: string;
}
/** The tier of a figure; empty if not shown. */
export interface TierMark {
  key?: string;
  label?: string;
  title?: string;
  settles?: boolean;
}
export interface Standing {
  mark: TierMark;
  text: string;
  settling: boolean;
}
export interface Share {
  role: string;
  shade: number | string;
  share: number;
  text: string;
  title: string;
}
export interface Toned {
  text: string;
  tone: string;
}
export interface Figure {
  key: string;
  label: string;
  text: string;
  title: string;
  note: string;
  tone: string;
  parts: Share[];
  apart: Share | null;
  limit: { share: number; text: string } | null;
  tier: TierMark;
  range: string;
  tiers: { label: string; text: string; note: string; stale: string; mark: TierMark }[];
  delta: Toned & { note?: string; title?: string } | null;
  counted: boolean;
  changes: Toned[];
}
export interface Alarm {
  key: string;
  kind: string;
  message: string;
  edits: string[];
}
/** Tracing options of the program. */
export interface TracedAs {
  zone: string;
  options: { key: string; label: string; value: string; title: string; menu: MenuItem[] }[];
}
export interface Hardware {
  zone: string;
  name: string;
  chips: { name: string; label: string }[];
  chip: string;
  shape: string;
  example: string;
  facts: string;
  title: string;
  /** For a plan without hardware: the attached devices, offered or in use. */
  attached: { text: string; button: string | null; busy: boolean } | null;
  shapes: MenuItem[];
  problem: string;
  mends: MenuItem[];
  wiring: { axis: string; colour: number; text: string; title: string }[];
  wirings: MenuItem[];
}
/** A tab of a row; `opens` is the section that it shows. */
export interface Tab {
  key: string;
  label: string;
  badge: string;
  open: boolean;
  opens: string;
}
/** A section of a view; Find belongs to none. */
export interface Section extends Tab {
  view: string;
}
export interface Taken {
  key: string;
  illegal: Reasons | Record<string, never>;
  menu: MenuEntry[];
}

export interface PlanNode {
  key: string;
  number: number;
  parent: number | null;
  lane: number;
  edit: string;
  name: string;
  pinned: boolean;
  here: boolean;
  picked: "" | "A" | "B";
  figures: { label: string; text: string; tone: "" | "good" | "bad" }[];
  title: string;
}
export interface Compared {
  first: { number: number; label: string };
  second: { number: number; label: string };
  follows: boolean;
  blocks: Block[];
  text: string;
}
export interface HistoryState {
  open: boolean;
  count: number;
  nodes: PlanNode[];
  lanes: number;
  note: string;
  compared: Compared | null;
}

export interface Sheet {
  kind: "export" | "link" | "save";
  title: string;
  forms: { key: string; label: string; open: boolean }[];
  /** A download that is not shown. */
  files: { key: string; label: string; about: string }[];
  about: string;
  text: string;
  problem: Problem | null;
  name: string;
}
export interface FilesState {
  path: string;
  /** Whether Save is offered. */
  saves: boolean;
  /** Whether plans can be imported and exported: files, links and previous plans. */
  exchanges: boolean;
  word: string;
  /** With `base64`, bytes of that media type instead of the text. */
  download: { name: string; text: string; view: string; seq: number; base64?: string; media?: string } | null;
  sheet: Sheet | null;
}
export interface ExerciseGoal {
  text: string;
  /** `null`: not known yet. */
  met: boolean | null;
  reason: string;
}
/** The open question of an exercise. */
export interface ExerciseState {
  title: string;
  questions: { name: string; label: string; open: boolean; done: boolean }[];
  name: string;
  kind: "plan" | "number" | "choice";
  ask: string;
  how: string;
  goals: ExerciseGoal[];
  /** Why the plan on the board is not a valid answer. */
  about: string;
  choices: string[];
  several: boolean;
  checking: boolean;
  verdict: { right: boolean; text: string; reasons: string[]; hints: string[]; why: string; score: string; attempt: number } | null;
  points: number;
  /** The figures are hidden until the number or choice is correct. */
  predicting: boolean;
  /** The next step after a correct answer: another question, or another lesson. */
  next: { label: string; question: string; link: string } | null;
}
/** The state of the header tools for history and files. */
export interface Tools {
  count: number;
  open: boolean;
  path: string;
  saves: boolean;
  exchanges: boolean;
  /** Whether another plan can be started. */
  starts: boolean;
  sheet: string;
}

export interface BoardState {
  kind?: undefined;
  name: string;
  revision?: number;
  mesh: string;
  devices: string;
  count: DeviceCount;
  layout: string;
  undo: string | null;
  redo: string | null;
  program: TracedAs;
  hardware: Hardware;
  figures: Figure[];
  standing: Standing;
  alarms: Alarm[];
  zones: Zone[];
  spare: { name: string; size: string };
  refusal: Refusal | null;
  said: string;
  views: Tab[];
  tabs: Section[];
  selected: string | null;
  taken: Taken | null;
  previews?: Previews | null;
  history: HistoryState;
  files: FilesState;
  exercise: ExerciseState | null;
  lesson?: LessonState;
  lesson_blocks?: LessonBlock[];
  start: StartState | null;
  model: ModelState | null;
  answer: Answer;
  told: unknown;
  follows: boolean;
}

export interface RecipeAxis {
  name: string;
  colour: number | null;
  options: { name: string; label: string }[];
}
export interface RecipeRow {
  key: string;
  name: string;
  title: string;
  about: string;
  state: "applies" | "holds" | "barred";
  edits: string[];
  reason: string;
  ways_out: string[];
  given: string[];
  axes: RecipeAxis[];
}
export interface Recipes {
  rows: RecipeRow[];
  problem: string;
}
export interface Because {
  of: string;
  title: string;
  lead: string[];
  blocks: Block[];
  /** Related glossary terms. */
  words: string[];
}
/** The pipeline stage that the tabs show. */
export interface StagesState {
  options: { value: string; label: string; title: string }[];
  chosen: string;
}
/** The source lines around the selected line or the origin of the selected value. */
export interface SourceState {
  line: string;
  number: number;
  lines: { number: number; text: string; subject: string }[];
  /** The paths produced by a selected line. */
  linked: string[];
}
export interface TableState {
  tab: string;
  search: string | null;
  stages: StagesState | null;
  blocks: Block[];
  why: Because | null;
  source?: SourceState | null;
  recipes: Recipes | null;
  seq: number;
  told: unknown;
}

export interface Fact {
  label: string;
  text: string;
  note: string;
  tone: string;
  mark?: TierMark;
}
export interface LogLine {
  key: string;
  at: string;
  text: string;
  tone: string;
}
/** The state of long-running work in its own process. */
export interface Work {
  phase: string;
  stage: string;
  fraction: number;
  message: string;
  facts: Fact[];
  log: LogLine[];
  said: string;
}
export interface PlanWork extends Work {
  waits: boolean;
  stale: boolean;
  /** The plan of the results, if not the current one. */
  of: string;
}
export interface CurveState {
  label: string;
  points: [number, number][];
  told: string[];
  high: string;
  low: string;
  first: string;
  end: string;
  last: string;
  across: { y: number; text: string } | null;
}
export interface Compilation extends PlanWork {
  target: string;
  unasked: boolean;
}
export interface LiveState extends PlanWork {
  can_run: boolean;
  /** Whether runs are offered, in addition to compilation. */
  runs: boolean;
  steps: string;
  curves: CurveState[];
  blocks: Block[];
  traced: boolean;
  compile: Compilation;
  at_rest: { on: boolean; note: string } | null;
  told: unknown;
}

export interface Term {
  name: string;
  says: string;
  link: string;
  on: string[];
  notebook: string;
  number: string;
  /** Its documentation page; empty if unknown. */
  page: string;
  lesson: { title: string; link: string } | null;
}
export interface Glossary {
  groups: { title: string; terms: Term[] }[];
  keys: { press: string; does: string }[];
}
