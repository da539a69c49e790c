"""Latency against throughput of decoding as a picture: seconds a token across, tokens a second and a chip upwards, a colour a slice.

Points to the upper left are better. The front is a line through its points; what does not fit into a device's memory is a small grey disc.
"""

from collections.abc import Iterator

from workbench.reports.latency_front import DecodePoint, LatencyFront, latency_text
from workbench.units import format_bytes, format_seconds
from workbench.visualize.draw.axis_scale import AxisScale, axes_marks, log_note, scale_of
from workbench.visualize.draw.drawing_marks import Disc, Drawing, Label, Mark, Polyline, fit_drawing, legend_marks, text_width
from workbench.visualize.draw.palette import AXES, NEUTRAL, TEXT
from workbench.visualize.draw.picture import Picture

_LEFT, _TOP, _WIDE, _HIGH = 84, 52, 560, 280  # pixels
_RADIUS, _OTHER, _UNFIT = 5.0, 3.5, 2.5  # pixels: on the front, beside it, what does not fit


def decode_front(found: LatencyFront) -> Picture:
    """The points of `plan.latency_front(...)`, those on the front with their batch beside them."""
    about = _about(found)
    if not found.points:
        return Picture.of_title(about)
    return Picture(about, lambda: _draw(found), lambda: f"{about}\n\n{latency_text(found)}")


def _about(found: LatencyFront) -> str:
    count = len(found.points)
    pairs = f"{count} pair{'s' * (count != 1)} of a batch and a slice"
    return f"{found.plan}: latency and throughput of {pairs}, {len(found.front)} on the front"


def _draw(found: LatencyFront) -> Drawing:
    across = scale_of([each.seconds_per_token for each in found.points], _LEFT, _WIDE)
    up = scale_of([each.tokens_per_second_per_chip for each in found.points], _TOP + _HIGH, -_HIGH)
    colours = _colour_slices(found)
    marks: list[Mark] = [Label(0, 12, _about(found), bold=True), *_draw_axes(across, up, colours)]
    line = tuple((across(each.seconds_per_token), up(each.tokens_per_second_per_chip)) for each in found.front)
    marks += [Polyline(line, TEXT, 1.0)] if len(line) > 1 else []
    for each in found.points:
        marks += _draw_point(each, across, up, colours[each.hardware])
    marks += _draw_batches(found, across, up)
    return fit_drawing(tuple(marks))


def _colour_slices(found: LatencyFront) -> dict[str, str]:
    """A colour for each slice, the fewest chips first."""
    names = dict.fromkeys(each.hardware for each in sorted(found.points, key=lambda point: (point.chips, point.hardware)))
    return {name: AXES[place % len(AXES)] for place, name in enumerate(names)}


def _draw_point(point: DecodePoint, across: AxisScale, up: AxisScale, colour: str) -> Iterator[Mark]:
    x, y = across(point.seconds_per_token), up(point.tokens_per_second_per_chip)
    radius = _UNFIT if not point.fits else _RADIUS if point.is_on_front else _OTHER
    yield Disc(x, y, radius, colour if point.fits else NEUTRAL, 1.0 if point.is_on_front else 0.7, _hover(point), _hover(point))


def _draw_batches(found: LatencyFront, across: AxisScale, up: AxisScale) -> Iterator[Mark]:
    """The batches of the front beside their discs; of discs in one place all of them in one label."""
    places: dict[tuple[int, int], list[str]] = {}
    for each in found.front:
        place = round(across(each.seconds_per_token)), round(up(each.tokens_per_second_per_chip))
        places.setdefault(place, []).append(f"{each.batch:,}")
    for (x, y), batches in places.items():
        yield Label(x + 8, y + 14, ", ".join(batches), colour=TEXT, bold=True)


def _hover(point: DecodePoint) -> str:
    memory = f"{format_bytes(point.peak)} a device{'' if point.fits else ', which does not fit'}"
    speed = f"{format_seconds(point.seconds_per_token)} a token, {point.tokens_per_second:,.0f} tokens/s"
    return f"batch {point.batch:,} on {point.hardware} ({point.mesh}): {speed}, {memory}"


def _draw_axes(across: AxisScale, up: AxisScale, colours: dict[str, str]) -> Iterator[Mark]:
    """Hair lines at round values, the names of the axes, and the colours."""
    name = "tokens per second and chip"
    yield from axes_marks(across, up, (format_seconds, lambda value: f"{value:,.10g}"))
    note = log_note({"time": across, "throughput": up})
    yield Label(_LEFT + _WIDE / 2, _TOP + _HIGH + 33, f"time of a token{note}; numbers are batches", anchor="middle")
    yield Label(0, _TOP - 12, name)
    yield from legend_marks(((colour, each) for each, colour in colours.items()), _LEFT + text_width(name), _TOP - 12)
