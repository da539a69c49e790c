"""Curves of a run as JSON: points in a box of 100 x 100, y downwards, with the labels of axes and points."""

from collections.abc import Callable
from math import isfinite
from statistics import median
from typing import Any

MOST_POINTS = 200


def curve(label: str, values: tuple[float, ...], show: Callable[[float], str], *, middle: bool = False) -> dict[str, Any] | None:
    """A line through the finite ones of `values`, one per step from 1 on; with `middle`, a line across it at their median.

    `None` where there are fewer than two: they make no line.
    """
    finite = [(step, value) for step, value in enumerate(values, 1) if isfinite(value)]
    if len(finite) < 2:
        return None
    kept = thin_out(finite)
    low, high = min(value for _, value in kept), max(value for _, value in kept)
    first, last = kept[0][0], kept[-1][0]
    span = high - low or 1.0
    height = [round(100 * (high - value) / span, 2) for _, value in kept]
    centre = median(value for _, value in finite)
    return {
        "label": label,
        "points": [[round(100 * (step - first) / (last - first), 2), y] for (step, _), y in zip(kept, height, strict=True)],
        "told": [f"step {step:,}: {show(value)}" for step, value in kept],
        "high": show(high),
        "low": show(low),
        "first": f"step {first:,}",
        "end": f"{last:,}",
        "last": show(finite[-1][1]),
        "across": {"y": round(100 * (high - centre) / span, 2), "text": f"median {show(centre)}"} if middle else None,
    }


def thin_out(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most `MOST_POINTS` and the last one: a curve in a box 300 pixels wide needs no more."""
    stride = -(-len(points) // MOST_POINTS) or 1
    kept = points[::stride]
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]
