"""Shared elements of the front pictures: axes, a colour for each number of devices, limits, the present plan.

Step time runs across, and memory, devices or dollars upwards; lower is better.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.search.requirements import AtMost
from workbench.search.search_figures import Figures, figures_text
from workbench.units import format_bytes, format_dollars, format_seconds
from workbench.visualize.draw.axis_scale import AxisScale, axes_marks, byte_ticks, log_note, scale_of
from workbench.visualize.draw.drawing_marks import Label, Mark, Polyline, Rectangle, legend_marks, text_width
from workbench.visualize.draw.palette import AXES, TEXT, WARNING

Up = Literal["memory", "devices", "dollars"]

HEAD = 84  # pixels to the left of the chart
REACH = 4.0
"""Multiple of the front's maximum up to which the scales include the present plan and limits."""
NAMES = {"memory": "memory of the fullest device", "devices": "devices", "dollars": "dollars for 1,000 steps"}
_SQUARE, _LEGEND, _LINE = 14, 18, 15  # pixels
_ARROWS = {(1, 0): "→", (-1, 0): "←", (0, 1): "↑", (0, -1): "↓", (1, 1): "↗", (-1, 1): "↖", (1, -1): "↘", (-1, -1): "↙"}


@dataclass(frozen=True, slots=True)
class FrontChart:
    """The scales of a picture, and the figure on its y axis."""

    across: AxisScale
    up: AxisScale
    figure: Up = "memory"

    @property
    def right(self) -> float:
        return self.across.start + self.across.length

    @property
    def top(self) -> float:
        return self.up.start + self.up.length

    def value(self, figures: Figures) -> float:
        """The value on the y axis; 0 without a price."""
        return float(getattr(figures, self.figure) or 0.0)

    def place(self, figures: Figures) -> tuple[float, float]:
        """The pixel position of a plan, clamped to the chart."""
        return self.across(figures.seconds), self.up(self.value(figures))

    def side(self, figures: Figures) -> tuple[int, int]:
        """The side on which a plan lies outside the chart, across and up: -1 below, 0 within, 1 above the scale."""
        pairs = ((self.across, figures.seconds), (self.up, self.value(figures)))
        across, up = ((value > scale.high) - (value < scale.low) for scale, value in pairs)
        return across, up

    def has(self, figures: Figures) -> bool:
        """Whether a plan lies within the chart; a plan without a price does not."""
        return bool(self.value(figures)) and self.side(figures) == (0, 0)


def make_chart(seconds: Sequence[float], values: Sequence[float], size: tuple[float, float], top: float, figure: Up) -> FrontChart:
    """A chart of this size in pixels that covers these values, `top` pixels below the edge of the picture."""
    wide, high = size
    return FrontChart(scale_of(seconds, HEAD, wide), scale_of(values, top + high, -high), figure)


def write_value(value: float, figure: Up) -> str:
    """Format a value of the y axis."""
    writers: dict[Up, Callable[[float], str]] = {
        "memory": format_bytes,
        "devices": lambda count: f"{count:,.0f}",
        "dollars": format_dollars,
    }
    return writers[figure](value)


def is_near(figures: Figures, chart_figure: Up, slowest: float, largest: float) -> bool:
    """Whether a plan is near enough to the front to extend the scales, given the front's maxima."""
    value = float(getattr(figures, chart_figure) or 0.0)
    return 0 < figures.seconds <= REACH * slowest and 0 < value <= REACH * largest


def colour_devices(front: Sequence[Figures]) -> dict[int, str]:
    """A colour for each number of devices, in descending order."""
    counts = sorted({figures.devices for figures in front}, reverse=True)
    return {count: AXES[index % len(AXES)] for index, count in enumerate(counts)}


def draw_axes(chart: FrontChart) -> Iterator[Mark]:
    """Grid lines, tick labels and axis names."""
    levels = byte_ticks(chart.up) if chart.figure == "memory" else None
    yield from axes_marks(chart.across, chart.up, (format_seconds, lambda value: write_value(value, chart.figure)), levels)
    note = log_note({"time": chart.across, chart.figure: chart.up})
    yield Label(HEAD + chart.across.length / 2, chart.up.start + 33, f"step time{note}", anchor="middle")
    yield Label(0, chart.top - _LEGEND, NAMES[chart.figure])


def draw_device_legend(chart: FrontChart, colours: Mapping[int, str]) -> Iterator[Mark]:
    """A legend if the front has several numbers of devices."""
    if len(colours) > 1:
        entries = ((colour, f"{count:,} device{'s' * (count != 1)}") for count, colour in colours.items())
        yield from legend_marks(entries, HEAD + text_width(NAMES[chart.figure]), chart.top - _LEGEND)


def draw_limits(chart: FrontChart, limits: Sequence[AtMost]) -> Iterator[Mark]:
    """A dashed line with a label at each limit within the chart."""
    for limit in limits:
        if limit.figure == chart.figure and chart.up.low < limit.limit < chart.up.high:
            y = chart.up(limit.limit)
            yield Polyline(((HEAD, y), (chart.right, y)), WARNING, 1.0, dashed=True)
            yield Label(chart.right, y - 5 if y > chart.top + _LINE else y + _LINE, str(limit), anchor="end", colour=WARNING)
        if limit.figure == "seconds" and chart.across.low < limit.limit < chart.across.high:
            x = chart.across(limit.limit)
            is_right = x > HEAD + chart.across.length / 2
            yield Polyline(((x, chart.up.start), (x, chart.top)), WARNING, 1.0, dashed=True)
            yield Label(x, chart.top - 5, str(limit), anchor="end" if is_right else "start", colour=WARNING)


def outside_text(chart: FrontChart, figures: Figures) -> str:
    """The figures of a plan outside the chart, and an arrow to it."""
    side = chart.side(figures)
    return (
        "" if side == (0, 0) else f": {format_seconds(figures.seconds)}, {write_value(chart.value(figures), chart.figure)} {_ARROWS[side]}"
    )


def draw_current_plan(chart: FrontChart, figures: Figures, against_best: str = "") -> Iterator[Mark]:
    """The present plan as an open square; outside the chart it is on the edge, with its figures and an arrow."""
    x, y = chart.place(figures)
    half, text = _SQUARE / 2, f"present plan{outside_text(chart, figures)}"
    title = f"The present plan: {figures_text(figures)}{f': {against_best}' * bool(against_best)}"
    yield Rectangle(x - half, y - half, _SQUARE, _SQUARE, line=TEXT, title=title)
    is_right, is_high = x > HEAD + chart.across.length / 2, y < chart.top + 2 * _LINE
    yield Label(x - 12 if is_right else x + 12, y + _LINE + 5 if is_high else y - 9, text, anchor="end" if is_right else "start", bold=True)
