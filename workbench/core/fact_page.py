"""A record as paragraphs and tables, printed by `page_text` and drawn by `widgets.tabs.table_blocks`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from workbench.core.text_tables import axes_text, table_text, wrap_text
from workbench.units import format_figure, format_seconds

BOARD_ONLY = "+"
"""Suffix of column names shown only on a board, such as bar columns."""


class PageCell(NamedTuple):
    """A table value with a kind that tells each view how to display it.

    - `kind`: `text`, `path`, `axes` (mesh axes), `sharding`, `pair` (two amounts as bars), `edits` (buttons), or a
      unit: `bytes`, `seconds`, `FLOP`; a board leaves an amount of 0 blank unless it is a `figure`;
    - `title`: the tooltip; `tone`: `good`, `warn`, `bad`, `muted` or `strong`; `times`: the number of items in this
      row;
    - `brief`: a shorter replacement for text output; `names`: the dimension names of a sharding.
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
    """Return a cell for a key figure, shown even if it is 0."""
    return PageCell(value, unit, tone=tone, is_figure=True)


class Row(NamedTuple):
    """Table cells; `key` is unique (default: the first cell's text), `subject` the path that a board selects."""

    cells: Sequence[PageCell]
    key: str = ""
    subject: str = ""


@dataclass(frozen=True)
class Table:
    """A table with optional titles, tooltips and glossary.

    - A column name ends in `>` for numbers, in `~` if its lines may wrap, and in `+` if only a board shows it.
    - `title`: above the table; `heading`: above it on a board only; `note`: below it on a board;
    - `titles`: tooltips of columns; `terms`: words of the table with their meanings.
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
    """A heading, which a board omits, followed by paragraphs and tables in order."""

    head: str
    parts: Sequence[Table | str]


def page_text(page: Page, most: int) -> str:
    """Format the page for a terminal with at most `most` rows per table; notebooks use it inside `html_text`."""
    parts = (wrap_text(part) if isinstance(part, str) else rows_text(part, most) for part in page.parts)
    return "\n\n".join(part for part in (page.head, *parts) if part)


def rows_text(table: Table, most: int) -> str:
    """Format a table with its title and glossary, or return an empty string if it has no rows."""
    if not table.rows:
        return ""
    columns = [place for place, name in enumerate(table.columns) if not name.endswith(BOARD_ONLY)]
    rows = [[row.cells[place].text for place in columns] for row in table.rows[:most]]
    more = f"\n  and {len(table.rows) - most} more" if len(table.rows) > most else ""
    drawn = table_text([table.columns[place] for place in columns], rows) + more
    legend = "\n".join(wrap_text(f"{name}: {meaning}.", first="  ", indent="    ") for name, meaning in table.terms)
    return "\n\n".join(part for part in (table.title, drawn, legend) if part)


def glossary_of(causes: Iterable[Any], found: Iterable[Any]) -> list[tuple[str, str]]:
    """List the (name, meaning) of causes that occur in the differences, in the order of `causes`."""
    present = {difference.cause for difference in found}
    return [(cause.name, cause.text) for cause in causes if cause in present]
