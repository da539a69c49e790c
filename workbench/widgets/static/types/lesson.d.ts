/** The text of a lesson, published in `board`. */

export type { ExerciseState } from "./states.d.ts";

export interface LessonLink {
  title: string;
  link: string;
}
export type LessonOutput = { kind: "text"; text: string } | { kind: "html"; html: string } | { kind: "svg"; svg: string; about: string };
/** A question, extended with the exercise's state. */
export type LessonBlock =
  | { kind: "html"; html: string }
  | { kind: "question"; name: string; label: string; open: boolean; done: boolean }
  | { kind: "code"; source: string; outputs: LessonOutput[] | null };
export interface LessonState {
  title: string;
  course: string;
  place: string;
  /** The page of all lessons; `null` where it is not served. */
  all: string | null;
  previous: LessonLink | null;
  next: LessonLink | null;
  notebook: string;
}
