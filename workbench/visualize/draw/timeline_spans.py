"""Time spans in rows: which can be seen at a number of pixels. Numbers only."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.reports.kernel import COMPUTE, Event

MOST_EVENTS = 20_000  # of a step whose loops are drawn iteration by iteration


@dataclass(frozen=True, slots=True)
class DrawnSpan:
    """One execution, in seconds from the beginning of the step. `weight` is from 0 to 1, how strongly it is shown; `path` selects it."""

    row: str
    start: float
    seconds: float
    name: str
    weight: float = 1.0
    path: str = ""

    @property
    def stop(self) -> float:
        return self.start + self.seconds


@dataclass(frozen=True, slots=True)
class MergedSpan:
    """Neighbouring spans that are drawn as one, from `left` to `right` in pixels; `longest` of them gives the look and the name."""

    left: float
    right: float
    longest: DrawnSpan
    count: int
    seconds: float


def merge_spans(spans: Iterable[DrawnSpan], seconds: float, length: float, narrowest: float = 2.0) -> tuple[MergedSpan, ...]:
    """The spans of one row on a line where `seconds` are `length` pixels; spans narrower than `narrowest` are merged with the next.

    A block covers time in which nothing ran only where that is narrower than `narrowest`.
    """
    scale = length / (seconds or 1.0)
    found: list[MergedSpan] = []
    for span in sorted(spans, key=lambda each: each.start):
        left, right = span.start * scale, span.stop * scale
        last = found[-1] if found else None
        if last is not None and left - last.right < narrowest and min(right - left, last.right - last.left) < narrowest:
            longest = max(last.longest, span, key=lambda each: each.seconds)
            found[-1] = MergedSpan(last.left, max(right, last.right), longest, last.count + 1, last.seconds + span.seconds)
        else:
            found.append(MergedSpan(left, right, span, 1, span.seconds))
    return tuple(found)


def shares(spans: Iterable[DrawnSpan], seconds: float, cells: int) -> tuple[float, ...]:
    """The share of each of `cells` equal parts of the time that a span covers, at most 1.

    >>> shares([DrawnSpan("compute", 0.0, 1.5, "f")], 4.0, 4)
    (1.0, 0.5, 0.0, 0.0)
    """
    cell = (seconds or 1.0) / cells
    found = [0.0] * cells
    for span in spans:
        for place in range(max(int(span.start / cell), 0), min(math.ceil(span.stop / cell), cells)):
            found[place] += (min(span.stop, (place + 1) * cell) - max(span.start, place * cell)) / cell
    return tuple(min(share, 1.0) for share in found)


def rows_of(spans: Sequence[DrawnSpan], axes: Sequence[str]) -> tuple[str, ...]:
    """Compute first, then communication by the first mesh axis it goes over."""

    def place(row: str) -> tuple[bool, int, str]:
        first = row.split("+", maxsplit=1)[0].split(":", maxsplit=1)[0]
        return row != COMPUTE, axes.index(first) if first in axes else len(axes), row

    return tuple(sorted({COMPUTE, *(span.row for span in spans)}, key=place))


def unroll_loops(events: Sequence[Event], most: int = MOST_EVENTS) -> tuple[Event, ...]:
    """A predicted step with every iteration of its loops unrolled from the first; unchanged if that is too much.

    The other iterations are marked by an event of kind `loop`, which begins where the first iteration ends; the events that end there ran
    `turns` times as often. Inner loops are shorter than those around them, and come first.
    """
    if sum(each.count for each in events) > most:
        return tuple(events)
    found = [each for each in events if each.kind != "loop"]
    for loop in sorted((each for each in events if each.kind == "loop"), key=lambda each: each.seconds):
        close = loop.seconds * 1e-9
        turns = min((each.count for each in events if abs(each.end - loop.start) <= close), default=0) // loop.count
        if turns < 2:
            found.append(loop)
            continue
        first = loop.seconds / (turns - 1)
        turn = [each for each in found if loop.start - first - close <= each.start < loop.start - close]
        found += [
            Event(each.stream, each.start + first * number, each.seconds, each.path, each.kind, each.count, each.exposed)
            for number in range(1, turns)
            for each in turn
        ]
    return tuple(found)
