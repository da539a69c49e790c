"""Time spans in lanes packed as arrays, from which a front end draws the visible ones at any zoom."""

import base64
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

NUMBER = "{number}"
EDGES = ("left", "right", "bottom", "top")
IDLE = (*EDGES, "own")
BLOCKS = (*EDGES, "shared", "color", "alpha", "title", "subject")
"""Columns of the source `blocks` of a figure of spans; a block is hatched from `left` to `shared`."""


class Span(NamedTuple):
    """A time span in seconds; the first `share` of it is hatched. `NUMBER` in texts of its style stands for `number`."""

    start: float
    seconds: float
    style: int
    number: int = -1
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class SpanStyle:
    """The style of spans of one kind; `weight` is the opacity.

    Spans of the same `group`, else of the same number, are highlighted together.
    """

    label: str
    title: str
    subject: str = ""
    weight: float = 1.0
    colour: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of spans that do not overlap, from `bottom` to `top` on the y axis; `weight` is the opacity.

    `other` is the tier with the same spans, by style and number. `own` is the length of one x unit in seconds if each
    tier has its own scale; 0 if the scale is the same.
    """

    name: str
    colour: str
    bottom: float
    top: float
    tier: str = ""
    other: str = ""
    own: float = 0.0
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class PackedSpans:
    """Spans sorted by lane and start: `firsts[i]` to `firsts[i + 1]` are in lane `i`; one x unit is `unit` seconds.

    >>> lanes, styles = (Lane("a", "#000000", 0, 1), Lane("b", "#000000", 1, 2)), (SpanStyle("f", "f"),)
    >>> spans = pack_spans([[Span(0.0, 1.0, 0)], [Span(0.5, 0.25, 0), Span(1.0, 1.0, 0)]], lanes, styles, 1.0)
    >>> spans.firsts, spans.count
    ((0, 1, 3), 3)
    """

    lanes: tuple[Lane, ...]
    styles: tuple[SpanStyle, ...]
    firsts: tuple[int, ...]
    starts: array  # type: ignore[type-arg]  # seconds, double
    seconds: array  # type: ignore[type-arg]  # single
    kinds: array  # type: ignore[type-arg]  # indices into `styles`, 4 bytes each
    unit: float
    numbers: array | None = None  # type: ignore[type-arg]  # 4 bytes each, -1 if none
    shares: array | None = None  # type: ignore[type-arg]  # single
    hatched: str = ""

    @property
    def count(self) -> int:
        return len(self.starts)

    @property
    def state(self) -> dict[str, Any]:
        """As JSON, with the arrays in little-endian base64."""
        return {
            "lanes": [asdict(item) for item in self.lanes],
            "styles": [[item.label, item.title, item.subject, item.weight, item.colour, item.group] for item in self.styles],
            "firsts": list(self.firsts),
            "starts": _base64(self.starts),
            "seconds": _base64(self.seconds),
            "kinds": _base64(self.kinds),
            "unit": self.unit,
            "numbers": self.numbers and _base64(self.numbers),
            "shares": self.shares and _base64(self.shares),
            "hatched": self.hatched,
        }


def pack_spans(
    by_lane: Sequence[Sequence[Span]], lanes: tuple[Lane, ...], styles: tuple[SpanStyle, ...], unit: float, hatched: str = ""
) -> PackedSpans:
    """Pack the spans of each lane, sorted by start."""
    firsts, starts, seconds, kinds, numbers, shares = [0], array("d"), array("f"), array("I"), array("i"), array("f")
    for spans in by_lane:
        for start, length, kind, number, share in sorted(spans):
            starts.append(start)
            seconds.append(length)
            kinds.append(kind)
            numbers.append(number)
            shares.append(share)
        firsts.append(len(starts))
    packed = PackedSpans(lanes, styles, tuple(firsts), starts, seconds, kinds, unit, hatched=hatched)
    return replace(packed, numbers=numbers, shares=shares) if any(value >= 0 for value in numbers) else packed


def lane_properties(height: float, along: str, ticks: Mapping[float, str]) -> dict[str, Mapping[str, Any]]:
    """Properties of a figure of lanes: height in pixels, x label, and lane names by y position."""
    return {
        "figure": {"height": height},
        "x axis": {"axis_label": along},
        "lanes": {"ticks": list(ticks)},
        "y axis": {"major_label_overrides": ticks},
    }


def idle_columns(edges: Sequence[tuple[int, int]], end: float, own: float | None = None) -> dict[str, list[float]]:
    """Columns of the source `idle`: lanes from `bottom` to `top`, until `end`, or until `own` on their own scale.

    >>> idle_columns([(18, 0)], 2.0)
    {'left': [0.0], 'right': [2.0], 'bottom': [18.0], 'top': [0.0], 'own': [2.0]}
    """
    rows = [(0.0, end, float(bottom), float(top), end if own is None else own) for bottom, top in edges]
    return {name: [row[index] for row in rows] for index, name in enumerate(IDLE)}


def _base64(values: Any) -> str:
    return base64.b64encode(values.tobytes()).decode()
