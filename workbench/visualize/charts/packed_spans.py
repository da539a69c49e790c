"""Many spans in lanes of time as arrays: what a front end needs to draw those that can be seen at any zoom. Numbers only."""

import base64
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SpanStyle:
    """What spans of one kind have in common: a `label` upon them, a `title` under the pointer, the path that they select, the opacity."""

    label: str
    title: str
    subject: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of spans that do not overlap, from `bottom` to `top` on the y axis."""

    name: str
    colour: str
    bottom: float
    top: float


@dataclass(frozen=True, slots=True)
class PackedSpans:
    """Spans by lane and start: spans `firsts[i]` to `firsts[i + 1]` are in lane `i`. `unit` seconds are 1 on the x axis.

    >>> lanes, styles = (Lane("a", "#000000", 0, 1), Lane("b", "#000000", 1, 2)), (SpanStyle("f", "f"),)
    >>> spans = pack_spans([[(0.0, 1.0, 0)], [(0.5, 0.25, 0), (1.0, 1.0, 0)]], lanes, styles, 1.0)
    >>> spans.firsts, spans.count
    ((0, 1, 3), 3)
    """

    lanes: tuple[Lane, ...]
    styles: tuple[SpanStyle, ...]
    firsts: tuple[int, ...]
    starts: array  # type: ignore[type-arg]  # of seconds, double
    seconds: array  # type: ignore[type-arg]  # single
    kinds: array  # type: ignore[type-arg]  # places in `styles`, 4 bytes each
    unit: float

    @property
    def count(self) -> int:
        return len(self.starts)

    @property
    def state(self) -> dict[str, Any]:
        """As JSON: the arrays in base64, little-endian."""
        return {
            "lanes": [{"name": each.name, "colour": each.colour, "bottom": each.bottom, "top": each.top} for each in self.lanes],
            "styles": [[each.label, each.title, each.subject, each.weight] for each in self.styles],
            "firsts": list(self.firsts),
            "starts": _base64(self.starts),
            "seconds": _base64(self.seconds),
            "kinds": _base64(self.kinds),
            "unit": self.unit,
        }


def pack_spans(
    by_lane: Sequence[Sequence[tuple[float, float, int]]], lanes: tuple[Lane, ...], styles: tuple[SpanStyle, ...], unit: float
) -> PackedSpans:
    """Of each lane (start, seconds, place in `styles`); they are sorted here."""
    firsts, starts, seconds, kinds = [0], array("d"), array("f"), array("I")
    for spans in by_lane:
        for start, length, kind in sorted(spans):
            starts.append(start)
            seconds.append(length)
            kinds.append(kind)
        firsts.append(len(starts))
    return PackedSpans(lanes, styles, tuple(firsts), starts, seconds, kinds, unit)


def _base64(values: Any) -> str:
    return base64.b64encode(values.tobytes()).decode()
