/** Written by `front_end.py` before the bundles. */

import type { Model } from "./board_context.d.ts";
import type { Glossary } from "./states.d.ts";

declare global {
  /** Constants from Python: the style sheets and the glossary. */
  const GIVEN: { style: string; glossary: Glossary };
  /** The version of the board's module, and the names of its parts. */
  const VERSION: string;
  const PARTS: string[];
  /** The board's module, for a page of recordings. */
  const BOARD: { render(given: { model: Model; el: HTMLElement }): () => void };
}
