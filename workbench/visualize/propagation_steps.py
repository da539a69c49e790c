"""Propagation as a grid: a row for each value, a column for each step, new axes in colour."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding
from workbench.core.text_tables import count_text, table_text
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import ACROSS, BACKWARD, FORWARD
from workbench.reports.propagation_step_text import value_name
from workbench.reports.report import Report
from workbench.visualize.draw.drawing_marks import Label, Mark, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import TEXT, axes_colour
from workbench.visualize.draw.picture import Picture

MOST_STEPS, MOST_VALUES = 8, 24
"""Limits for one page; longer replays are for the slider of the board."""
_ARROWS = {FORWARD: "→", BACKWARD: "←", ACROSS: "↔"}
_WORD = re.compile(r"[][, -]+|[^][, -]+")  # of a sharding: axes and separators
_LINE, _GAP, _PAD = 22, 14, 6  # pixels


@dataclass(frozen=True, slots=True)
class _ValueRow:
    """A value with its sharding initially and after each step; `new` are the axes that each step added."""

    name: str
    at: tuple[Sharding, ...]
    new: tuple[tuple[str, ...], ...]


def propagation(report: Report) -> Picture:
    """The replay as a grid of the initial shardings and the steps, with only changes drawn.

    The head of each step shows its direction: forward (→), backward (←), or between operands (↔). A long replay shows
    only its first steps and the values that they reach.
    """
    title, rows, heads = _title(report), _rows(report.propagation), _heads(report.propagation)
    return Picture(title, lambda: fit_drawing(tuple(_marks(title, rows, heads, report.mesh))), lambda: _text(report))


def _text(report: Report) -> str:
    rows, heads = _rows(report.propagation), _heads(report.propagation)
    cells = [(head, row.name, str(row.at[step])) for step, head in enumerate(heads) for row in rows if row.new[step]]
    return f"{_title(report)}\n\n{table_text(['step', 'value', 'sharding then~'], cells)}"


def _title(report: Report) -> str:
    steps = len(report.propagation.steps)
    shown = f", the first {MOST_STEPS} here" if steps > MOST_STEPS else ""
    return f"{report.title}: its shardings spread in {count_text(steps, 'step')}{shown}"


def _heads(replay: Propagation) -> list[str]:
    directions = [dict.fromkeys(_ARROWS[move.direction] for move in step.axis_propagations) for step in replay.steps[:MOST_STEPS]]
    return ["by hand", *(f"{number} {''.join(arrows)}" for number, arrows in enumerate(directions, 1))]


def _rows(replay: Propagation) -> list[_ValueRow]:
    """The values that are sharded or reached, and up to `MOST_VALUES` also replicated ones; pass-through values once."""
    last = min(len(replay.steps), MOST_STEPS)
    states = [replay.at(step) for step in range(last + 1)]
    named = [number for number, site in enumerate(replay.values) if (site.path or site.role == "result") and replay.one[number] == number]
    if len(named) > MOST_VALUES:
        named = [number for number in named if any(state[number].axes for state in states)]
    return [_row(replay, number, [state[number] for state in states]) for number in named[:MOST_VALUES]]


def _row(replay: Propagation, number: int, at: Sequence[Sharding]) -> _ValueRow:
    gained = [tuple(axis for axis in after.axes if axis not in before.axes) for before, after in itertools.pairwise(at)]
    return _ValueRow(value_name(replay.values[number]), tuple(at), (at[0].axes, *gained))


def _marks(title: str, rows: Sequence[_ValueRow], heads: Sequence[str], mesh: Mesh) -> Iterator[Mark]:
    yield Label(0, 12, title, bold=True)
    head = max([text_width(row.name) for row in rows], default=0.0) + _GAP
    widths = [max(text_width(text) for text in (heads[n], *(str(row.at[n]) for row in rows if row.new[n]))) for n in range(len(heads))]
    left = head
    for name, width in zip(heads, widths, strict=True):
        yield Label(left + _PAD, 2 * _LINE, name, bold=True)
        left += width + 2 * _PAD + _GAP
    for place, row in enumerate(rows):
        yield from _draw_row(row, (3 + place) * _LINE, head, widths, mesh)


def _draw_row(row: _ValueRow, y: float, head: float, widths: Sequence[float], mesh: Mesh) -> Iterator[Mark]:
    yield Label(0, y, row.name)
    left = head
    for step, width in enumerate(widths):
        if row.new[step]:
            colour, how = axes_colour(row.new[step], mesh), f"after step {step}" if step else "by hand"
            title = f"{row.name} {how}: {row.at[step]}"
            yield Rectangle(left, y - 15, width + 2 * _PAD, 20, fill=colour, alpha=0.18, line=colour, round=4, title=title)
        if row.new[step] or not step:
            yield from _entries(row, step, left + _PAD, y, mesh)
        left += width + 2 * _PAD + _GAP


def _entries(row: _ValueRow, step: int, x: float, y: float, mesh: Mesh) -> Iterator[Mark]:
    text = str(row.at[step])
    for word in _WORD.finditer(text):
        axes = tuple(word[0].split("+")) if word[0][0] not in "[], -" else ()
        is_new = any(axis in row.new[step] for axis in axes)
        colour = axes_colour(axes, mesh) if axes else TEXT
        yield Label(x + text_width(text[: word.start()]), y, word[0], colour=colour, bold=is_new)
