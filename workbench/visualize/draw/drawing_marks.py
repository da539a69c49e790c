"""Marks of a drawing (rectangles, areas, lines, dots, text), in pixels from the top left corner.

A mark may carry data for interaction: `title` is its tooltip, `subject` the path of its argument, value or collective
(the same in every view), and `opens` the key that a click opens.
"""

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from workbench.visualize.draw.palette import TEXT

FONT = 11  # pixels
_LINE = 15  # pixels, line height of a title
_LEAST_TITLE = 640  # pixels, minimum width for a title, even over a narrower picture
_BESIDE_TITLE = 40  # pixels, room for the button of the page
_WIDTH = 0.61  # character width in font sizes; DejaVu Sans Mono's 0.602 is the widest of our monospace fonts


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle; `hatched` draws lines over the fill, `round` is the corner radius."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    alpha: float = 1.0
    line: str | None = None
    hatched: bool = False
    title: str = ""
    subject: str = ""
    opens: str = ""
    round: float = 0.0


@dataclass(frozen=True, slots=True)
class Label:
    """Text with its baseline at `y` and its `anchor` at `x`."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    colour: str = TEXT
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Area:
    """A filled polygon through `points` (x, y)."""

    points: tuple[tuple[float, float], ...]
    fill: str
    alpha: float = 1.0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Polyline:
    """A line through `points` (x, y)."""

    points: tuple[tuple[float, float], ...]
    colour: str
    width: float = 1.0
    dashed: bool = False
    alpha: float = 1.0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Disc:
    """A disc around (x, y)."""

    x: float
    y: float
    radius: float
    fill: str
    alpha: float = 1.0
    title: str = ""
    subject: str = ""
    opens: str = ""


Mark = Rectangle | Area | Polyline | Disc | Label
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Marks, drawn in order, on a transparent background."""

    width: float
    height: float
    marks: tuple[Mark, ...]

    @property
    def rectangles(self) -> tuple[Rectangle, ...]:
        return tuple(mark for mark in self.marks if isinstance(mark, Rectangle))

    @property
    def areas(self) -> tuple[Area, ...]:
        return tuple(mark for mark in self.marks if isinstance(mark, Area))

    @property
    def lines(self) -> tuple[Polyline, ...]:
        return tuple(mark for mark in self.marks if isinstance(mark, Polyline))

    @property
    def dots(self) -> tuple[Disc, ...]:
        return tuple(mark for mark in self.marks if isinstance(mark, Disc))

    @property
    def reacts(self) -> bool:
        return any(mark.subject or getattr(mark, "opens", "") for mark in self.marks if isinstance(mark, Rectangle | Disc))

    @property
    def labels(self) -> tuple[Label, ...]:
        return tuple(mark for mark in self.marks if isinstance(mark, Label))


def text_width(text: str) -> float:
    """The width of a text in pixels, rounded up."""
    return _WIDTH * FONT * len(text)


def legend_marks(entries: Iterable[tuple[str, str]], x: float, y: float) -> Iterator[Mark]:
    """A row of (colour, text) legend entries."""
    for colour, text in entries:
        yield Rectangle(x, y - 9, 9, 9, fill=colour)
        yield Label(x + 14, y, text)
        x += text_width(text) + 32


def fit_drawing(marks: tuple[Mark, ...], margin: float = 8) -> Drawing:
    """A drawing fitted to marks whose origin is (0, 0); a title wider than the marks is wrapped."""
    marks = _wrap_title(marks)
    corners = [_corner(mark) for mark in marks]
    return Drawing(round(max(x for x, _ in corners) + margin), round(max(y for _, y in corners) + margin), marks)


def _wrap_title(marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """Wrap a long title: a page scales a picture to its width, which would make all of it too small."""
    title, rest = marks[0], marks[1:]
    if not (rest and isinstance(title, Label) and title.bold and (title.x, title.y) == (0, 12)):
        return marks
    room = max(_LEAST_TITLE, *(_corner(mark)[0] for mark in rest)) - _BESIDE_TITLE
    lines = textwrap.wrap(title.text, int(room / text_width("m")))
    title_lines = (replace(title, y=title.y + _LINE * number, text=line) for number, line in enumerate(lines))
    return (*title_lines, *(shift_down(mark, _LINE * (len(lines) - 1)) for mark in rest))


def shift_down(mark: Mark, by: float) -> Mark:
    """The mark, moved down by this number of pixels."""
    if isinstance(mark, Area | Polyline):
        return replace(mark, points=tuple((x, y + by) for x, y in mark.points))
    return replace(mark, y=mark.y + by)


def _corner(mark: Mark) -> tuple[float, float]:
    if isinstance(mark, Rectangle):
        return mark.x + mark.width, mark.y + mark.height
    if isinstance(mark, Disc):
        return mark.x + mark.radius, mark.y + mark.radius
    if isinstance(mark, Area | Polyline):
        return max(x for x, _ in mark.points), max(y for _, y in mark.points)
    return mark.x + _label_reach(mark), mark.y + 4


def _label_reach(label: Label) -> float:
    return text_width(label.text) * {"start": 1.0, "middle": 0.5, "end": 0.0}[label.anchor]
