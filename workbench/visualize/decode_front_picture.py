"""Decoding latency against throughput: seconds per token across, tokens per second and chip upwards.

The upper left is better. A line joins the points of the front; each slice has a colour; points that do not fit in
device memory are small grey discs.
"""

from collections.abc import Iterator

from workbench.reports.latency_front import DecodePoint, LatencyFront, latency_text
from workbench.units import format_bytes, format_seconds
from workbench.visualize.draw.axis_scale import AxisScale, axes_marks, log_note, scale_of
from workbench.visualize.draw.drawing_marks import Disc, Drawing, Label, Mark, Polyline, fit_drawing, legend_marks, text_width
from workbench.visualize.draw.palette import AXES, NEUTRAL, TEXT
from workbench.visualize.draw.picture import Picture

_LEFT, _TOP, _WIDE, _HIGH = 84, 52, 560, 280  # pixels
_RADIUS, _OTHER, _UNFIT = 5.0, 3.5, 2.5  # pixels: on the front, off the front, out of memory


def decode_front(found: LatencyFront) -> Picture:
    """The points of `plan.latency_front(...)`; those on the front are labelled with their batch size."""
    about = _about(found)
    if not found.points:
        return Picture.of_title(about)
    return Picture(about, lambda: _draw(found), lambda: f"{about}\n\n{latency_text(found)}")


def _about(found: LatencyFront) -> str:
    count = len(found.points)
    pairs = f"{count} pair{'s' * (count != 1)} of a batch and a slice"
    return f"{found.plan}: latency and throughput of {pairs}, {len(found.front)} on the front"


def _draw(found: LatencyFront) -> Drawing:
    across = scale_of([item.seconds_per_token for item in found.points], _LEFT, _WIDE)
    up = scale_of([item.tokens_per_second_per_chip for item in found.points], _TOP + _HIGH, -_HIGH)
    colours = _colour_slices(found)
    marks: list[Mark] = [Label(0, 12, _about(found), bold=True), *_draw_axes(across, up, colours)]
    front_line = tuple((across(item.seconds_per_token), up(item.tokens_per_second_per_chip)) for item in found.front)
    marks += [Polyline(front_line, TEXT, 1.0)] if len(front_line) > 1 else []
    for item in found.points:
        marks += _draw_point(item, across, up, colours[item.hardware])
    marks += _draw_batches(found, across, up)
    return fit_drawing(tuple(marks))


def _colour_slices(found: LatencyFront) -> dict[str, str]:
    names = dict.fromkeys(each.hardware for each in sorted(found.points, key=lambda point: (point.chips, point.hardware)))
    return {name: AXES[place % len(AXES)] for place, name in enumerate(names)}


def _draw_point(point: DecodePoint, across: AxisScale, up: AxisScale, colour: str) -> Iterator[Mark]:
    x, y = across(point.seconds_per_token), up(point.tokens_per_second_per_chip)
    radius = _UNFIT if not point.fits else _RADIUS if point.is_on_front else _OTHER
    yield Disc(x, y, radius, colour if point.fits else NEUTRAL, 1.0 if point.is_on_front else 0.7, _hover(point), _hover(point))


def _draw_batches(found: LatencyFront, across: AxisScale, up: AxisScale) -> Iterator[Mark]:
    places: dict[tuple[int, int], list[str]] = {}
    for point in found.front:
        place = round(across(point.seconds_per_token)), round(up(point.tokens_per_second_per_chip))
        places.setdefault(place, []).append(f"{point.batch:,}")
    for (x, y), batches in places.items():
        yield Label(x + 8, y + 14, ", ".join(batches), colour=TEXT, bold=True)


def _hover(point: DecodePoint) -> str:
    memory = f"{format_bytes(point.peak)} a device{'' if point.fits else ', which does not fit'}"
    speed = f"{format_seconds(point.seconds_per_token)} a token, {point.tokens_per_second:,.0f} tokens/s"
    return f"batch {point.batch:,} on {point.hardware} ({point.mesh}): {speed}, {memory}"


def _draw_axes(across: AxisScale, up: AxisScale, colours: dict[str, str]) -> Iterator[Mark]:
    name = "tokens per second and chip"
    yield from axes_marks(across, up, (format_seconds, lambda value: f"{value:,.10g}"))
    note = log_note({"time": across, "throughput": up})
    yield Label(_LEFT + _WIDE / 2, _TOP + _HIGH + 33, f"time of a token{note}; numbers are batches", anchor="middle")
    yield Label(0, _TOP - 12, name)
    yield from legend_marks(((colour, slice_name) for slice_name, colour in colours.items()), _LEFT + text_width(name), _TOP - 12)
