"""Latency and throughput of decoding as text."""

from collections.abc import Iterable, Iterator

from workbench.reports.latency_front import DecodePoint, ImpossibleDecode, LatencyFront
from workbench.core.text_tables import table_text, wrap_text
from workbench.units import format_bytes, format_seconds

_BOUND = "Of steps marked `*` the time is that of the bytes they move, over the memory's bandwidth: what the plan predicts is shorter."


def latency_text(found: LatencyFront) -> str:
    """A row for each batch and slice, those on the front marked, and what could not be planned."""
    columns = ["front", "batch>", "hardware", "mesh", "a token>", "tokens/s>", "a chip>", "peak a device>", "fits"]
    parts = [found.plan, table_text(columns, map(_cells, found.points))]
    if any(_is_bound(each) for each in found.points):
        parts.append(wrap_text(_BOUND))
    return "\n\n".join([*parts, *_impossible_texts(found.impossible)])


def _impossible_texts(impossible: Iterable[ImpossibleDecode]) -> Iterator[str]:
    """A paragraph for each slice and reason, with all batches that it is true of."""
    batches: dict[tuple[str, str], list[str]] = {}
    for each in impossible:
        batches.setdefault((each.hardware, each.why), []).append(f"{each.batch:,}")
    for (hardware, why), those in batches.items():
        yield wrap_text(f"batch {', '.join(those)} on {hardware}: {why}")


def _is_bound(point: DecodePoint) -> bool:
    return point.bandwidth_seconds > point.step_seconds


def _cells(point: DecodePoint) -> list[str]:
    return [
        "front" if point.is_on_front else "",
        f"{point.batch:,}",
        point.hardware,
        point.mesh,
        format_seconds(point.seconds_per_token) + "*" * _is_bound(point),
        f"{point.tokens_per_second:,.0f}",
        f"{point.tokens_per_second_per_chip:,.1f}",
        format_bytes(point.peak),
        "yes" if point.fits else "no",
    ]
