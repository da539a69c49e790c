"""Many spans in lanes of time as arrays: what a front end needs to draw those that can be seen at any zoom. Numbers only."""

import base64
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

NUMBER = "{number}"
EDGES = ("left", "right", "bottom", "top")
IDLE = (*EDGES, "own")
BLOCKS = (*EDGES, "shared", "color", "alpha", "title", "subject")
"""Columns of the source `blocks` of a figure of spans; from `left` to `shared` a block is hatched."""


class Span(NamedTuple):
    """A span of time, in seconds, and the place of its style, in whose label and title `NUMBER` stands for its `number`. The first `share`
    of it is hatched."""

    start: float
    seconds: float
    style: int
    number: int = -1
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class SpanStyle:
    """What spans of one kind have in common: a `label` upon them, a `title` under the pointer, the path that they select, the opacity, and
    a `colour` if it is not that of their lane. Spans of one `group` stand out together; without it, those of one number."""

    label: str
    title: str
    subject: str = ""
    weight: float = 1.0
    colour: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of spans that do not overlap, from `bottom` to `top` on the y axis; `tier` says where their times are from, `weight` is the
    opacity of them all.

    `other` is the tier that has the same spans, by style and number. `own` seconds are 1 on the x axis where each tier is drawn on a scale
    of its own; 0 where that is no other scale.
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
    """Spans by lane and start: spans `firsts[i]` to `firsts[i + 1]` are in lane `i`. `unit` seconds are 1 on the x axis. `hatched` says
    what is hatched of them.

    >>> lanes, styles = (Lane("a", "#000000", 0, 1), Lane("b", "#000000", 1, 2)), (SpanStyle("f", "f"),)
    >>> spans = pack_spans([[Span(0.0, 1.0, 0)], [Span(0.5, 0.25, 0), Span(1.0, 1.0, 0)]], lanes, styles, 1.0)
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
    numbers: array | None = None  # type: ignore[type-arg]  # 4 bytes each, -1 where there is none
    shares: array | None = None  # type: ignore[type-arg]  # single
    hatched: str = ""

    @property
    def count(self) -> int:
        return len(self.starts)

    @property
    def state(self) -> dict[str, Any]:
        """As JSON: the arrays in base64, little-endian."""
        return {
            "lanes": [asdict(each) for each in self.lanes],
            "styles": [[each.label, each.title, each.subject, each.weight, each.colour, each.group] for each in self.styles],
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
    """Of each lane its spans; they are sorted here."""
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
    return replace(packed, numbers=numbers, shares=shares) if any(each >= 0 for each in numbers) else packed


def lane_properties(height: float, along: str, ticks: Mapping[float, str]) -> dict[str, Mapping[str, Any]]:
    """Properties of a figure of lanes: its height in pixels, what is along x, and the names before the lanes."""
    return {
        "figure": {"height": height},
        "x axis": {"axis_label": along},
        "lanes": {"ticks": list(ticks)},
        "y axis": {"major_label_overrides": ticks},
    }


def idle_columns(edges: Sequence[tuple[int, int]], end: float, own: float | None = None) -> dict[str, list[float]]:
    """Columns of the source `idle`: the whole time of lanes, each from `bottom` to `top`, to its `end`; on a scale of its own to `own`.

    >>> idle_columns([(18, 0)], 2.0)
    {'left': [0.0], 'right': [2.0], 'bottom': [18.0], 'top': [0.0], 'own': [2.0]}
    """
    rows = [(0.0, end, float(bottom), float(top), end if own is None else own) for bottom, top in edges]
    return {name: [row[place] for row in rows] for place, name in enumerate(IDLE)}


def _base64(values: Any) -> str:
    return base64.b64encode(values.tobytes()).decode()
