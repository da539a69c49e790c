"""Time spans in rows, merged where they are too short to see."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.reports.kernel import COMPUTE, Event

MOST_EVENTS = 20_000  # of a step with unrolled loops


@dataclass(frozen=True, slots=True)
class DrawnSpan:
    """One execution, in seconds from the start of the step; `weight` (0 to 1) sets its opacity, `path` selects it."""

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
    """Adjacent spans drawn as one from `left` to `right`, in pixels; `longest` provides colour and name."""

    left: float
    right: float
    longest: DrawnSpan
    count: int
    seconds: float


def merge_spans(spans: Iterable[DrawnSpan], seconds: float, length: float, narrowest: float = 2.0) -> tuple[MergedSpan, ...]:
    """Merge spans narrower than `narrowest` pixels with the next, on an axis where `seconds` are `length` pixels.

    A merged span covers idle time only where that is narrower than `narrowest`.
    """
    scale = length / (seconds or 1.0)
    merged: list[MergedSpan] = []
    for span in sorted(spans, key=lambda item: item.start):
        left, right = span.start * scale, span.stop * scale
        last = merged[-1] if merged else None
        if last is not None and left - last.right < narrowest and min(right - left, last.right - last.left) < narrowest:
            longest = max(last.longest, span, key=lambda item: item.seconds)
            merged[-1] = MergedSpan(last.left, max(right, last.right), longest, last.count + 1, last.seconds + span.seconds)
        else:
            merged.append(MergedSpan(left, right, span, 1, span.seconds))
    return tuple(merged)


def shares(spans: Iterable[DrawnSpan], seconds: float, cells: int) -> tuple[float, ...]:
    """The share of each of `cells` equal time intervals that the spans cover, at most 1.

    >>> shares([DrawnSpan("compute", 0.0, 1.5, "f")], 4.0, 4)
    (1.0, 0.5, 0.0, 0.0)
    """
    cell = (seconds or 1.0) / cells
    covered = [0.0] * cells
    for span in spans:
        for index in range(max(int(span.start / cell), 0), min(math.ceil(span.stop / cell), cells)):
            covered[index] += (min(span.stop, (index + 1) * cell) - max(span.start, index * cell)) / cell
    return tuple(min(share, 1.0) for share in covered)


def rows_of(spans: Sequence[DrawnSpan], axes: Sequence[str]) -> tuple[str, ...]:
    """The rows in order: compute, then communication by the first mesh axis of each."""

    def place(row: str) -> tuple[bool, int, str]:
        first = row.split("+", maxsplit=1)[0].split(":", maxsplit=1)[0]
        return row != COMPUTE, axes.index(first) if first in axes else len(axes), row

    return tuple(sorted({COMPUTE, *(span.row for span in spans)}, key=place))


def unroll_loops(events: Sequence[Event], most: int = MOST_EVENTS) -> tuple[Event, ...]:
    """A predicted step with every loop iteration unrolled; unchanged if that takes more than `most` events.

    An event of kind `loop` stands for all iterations after the first and begins where the first ends; the events that
    end there have `turns` times its count. Inner loops are shorter than outer ones, so they come first.
    """
    if sum(each.count for each in events) > most:
        return tuple(events)
    unrolled = [each for each in events if each.kind != "loop"]
    for loop in sorted((each for each in events if each.kind == "loop"), key=lambda each: each.seconds):
        close = loop.seconds * 1e-9
        turns = min((each.count for each in events if abs(each.end - loop.start) <= close), default=0) // loop.count
        if turns < 2:
            unrolled.append(loop)
            continue
        first = loop.seconds / (turns - 1)
        turn = [each for each in unrolled if loop.start - first - close <= each.start < loop.start - close]
        unrolled += [
            Event(each.stream, each.start + first * number, each.seconds, each.path, each.kind, each.count, each.exposed)
            for number in range(1, turns)
            for each in turn
        ]
    return tuple(unrolled)
