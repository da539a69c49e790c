"""Shared elements of the front pictures: axes, a colour for each number of devices, limits, the present plan.

Step time runs across, and memory, devices or dollars upwards; lower is better.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.search.search_figures import Figures
from workbench.units import format_bytes, format_dollars, format_seconds
from workbench.visualize.draw.axis_scale import AxisScale, scale_of
from workbench.visualize.draw.palette import AXES

Up = Literal["memory", "devices", "dollars"]

REACH = 4.0
"""Multiple of the front's maximum up to which the scales include the present plan and limits."""
NAMES = {"memory": "memory of the fullest device", "devices": "devices", "dollars": "dollars for 1,000 steps"}
_ARROWS = {(1, 0): "→", (-1, 0): "←", (0, 1): "↑", (0, -1): "↓", (1, 1): "↗", (-1, 1): "↖", (1, -1): "↘", (-1, -1): "↙"}


@dataclass(frozen=True, slots=True)
class FrontChart:
    """The scales of a picture, and the figure on its y axis."""

    across: AxisScale
    up: AxisScale
    figure: Up = "memory"

    def value(self, figures: Figures) -> float:
        """The value on the y axis; 0 without a price."""
        return float(getattr(figures, self.figure) or 0.0)

    def side(self, figures: Figures) -> tuple[int, int]:
        """The side on which a plan lies outside the chart, across and up: -1 below, 0 within, 1 above the scale."""
        pairs = ((self.across, figures.seconds), (self.up, self.value(figures)))
        across, up = ((value > scale.high) - (value < scale.low) for scale, value in pairs)
        return across, up

    def has(self, figures: Figures) -> bool:
        """Whether a plan lies within the chart; a plan without a price does not."""
        return bool(self.value(figures)) and self.side(figures) == (0, 0)


def make_chart(seconds: Sequence[float], values: Sequence[float], figure: Up) -> FrontChart:
    """Scales of unit length that cover these values."""
    return FrontChart(scale_of(seconds, 0, 1), scale_of(values, 1, -1), figure)


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


def outside_text(chart: FrontChart, figures: Figures) -> str:
    """The figures of a plan outside the chart, and an arrow to it."""
    side = chart.side(figures)
    return (
        "" if side == (0, 0) else f": {format_seconds(figures.seconds)}, {write_value(chart.value(figures), chart.figure)} {_ARROWS[side]}"
    )
