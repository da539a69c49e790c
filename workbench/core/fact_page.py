"""A page of facts about a record: paragraphs and tables as values. `page_text` writes it, `widgets.tabs.table_blocks` draws it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from workbench.core.text_tables import axes_text, table_text, wrap_text
from workbench.units import format_figure, format_seconds

BOARD_ONLY = "+"
"""The end of the name of a column that only a board has, such as one of bars."""


class PageCell(NamedTuple):
    """A value in a table, and its kind, from which each view makes what it shows.

    - `kind`: `text`, `path`, `axes` (mesh axes), `sharding`, `pair` (two amounts as bars), `edits` (buttons), or a unit: `bytes`,
      `seconds`, `FLOP`; a board writes an amount of 0 as nothing, except as a `figure`;
    - `title`: the tooltip; `tone`: `good`, `warn`, `bad`, `muted` or `strong`; `times`: how many alike the row stands for;
    - `brief`: what a text has in place of it, where there is less room; `names`: of the dimensions of a sharding.
    """

    value: Any
    kind: str = "text"
    title: str = ""
    tone: str = ""
    times: int = 1
    brief: str | None = None
    names: tuple[str, ...] = ()
    is_figure: bool = False

    @property
    def text(self) -> str:
        if self.brief is not None:
            return self.brief
        if self.value is None:
            return "-"
        if self.kind == "axes":
            return axes_text(self.value)
        if self.kind == "seconds":
            return format_seconds(self.value) if self.value or self.is_figure else "-"
        return format_figure(self.value, self.kind) if self.kind in ("bytes", "FLOP") else str(self.value)


def figure(value: float | None, unit: str, tone: str = "") -> PageCell:
    """A key figure, which is shown also where it is 0."""
    return PageCell(value, unit, tone=tone, is_figure=True)


class Row(NamedTuple):
    """Cells, and a name for the row that no other of its table has: the text of the first cell unless given. `subject`: the path of the
    argument, value or collective it is about, which a board can select."""

    cells: Sequence[PageCell]
    key: str = ""
    subject: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the name of a column ends in `>` for numbers, in `~` if its lines may break, and in `+` if only a board has it.

    - `title`: over the table; `heading`: over it on a board only, where each table stands alone;
    - `titles`: tooltips of columns; `terms`: the words in it with their meanings; `note`: what a board says below it.
    """

    columns: Sequence[str]
    rows: Sequence[Row]
    title: str = ""
    heading: str = ""
    titles: Sequence[tuple[str, str]] = ()
    terms: Sequence[tuple[str, str]] = ()
    note: str = ""


@dataclass(frozen=True)
class Page:
    """A head, which a board leaves out because it names the record elsewhere, and paragraphs and tables in order."""

    head: str
    parts: Sequence[Table | str]


def page_text(page: Page, most: int) -> str:
    """The page as text for a terminal, with `most` rows of a table at most; a notebook shows it inside `html_text`."""
    parts = (wrap_text(part) if isinstance(part, str) else rows_text(part, most) for part in page.parts)
    return "\n\n".join(part for part in (page.head, *parts) if part)


def rows_text(table: Table, most: int) -> str:
    """A table with its title and the meanings of its terms; empty where it has no rows."""
    if not table.rows:
        return ""
    shown = [place for place, name in enumerate(table.columns) if not name.endswith(BOARD_ONLY)]
    rows = [[row.cells[place].text for place in shown] for row in table.rows[:most]]
    more = f"\n  and {len(table.rows) - most} more" if len(table.rows) > most else ""
    drawn = table_text([table.columns[place] for place in shown], rows) + more
    legend = "\n".join(wrap_text(f"{name}: {meaning}.", first="  ", indent="    ") for name, meaning in table.terms)
    return "\n\n".join(part for part in (table.title, drawn, legend) if part)


def terms_among(causes: Iterable[Any], found: Iterable[Any]) -> list[tuple[str, str]]:
    """The causes that these differences have, each with its meaning, in the order of `causes`."""
    named = {each.cause for each in found}
    return [(cause.name, cause.text) for cause in causes if cause in named]
