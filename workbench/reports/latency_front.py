"""Latency and throughput of a decoding step over batches and slices, with the Pareto front."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from workbench.core.text_tables import table_text, wrap_text
from workbench.units import format_bytes, format_seconds


@dataclass(frozen=True, slots=True)
class DecodePoint:
    """One batch on one slice, with the fastest mesh of that many devices among those that fit.

    - `step_seconds`: the planned step time; `bandwidth_seconds`: bytes read and written by kernels over memory
      bandwidth, a lower bound for decoding, which reads everything once. XLA:TPU estimates less where it prefetches
      operands.
    - `peak`, `capacity`: bytes per device;
    - `is_on_front`: it fits, and no other fitting point is better in both latency and throughput per chip.
    """

    batch: int
    hardware: str
    chips: int
    mesh: str
    step_seconds: float
    bandwidth_seconds: float
    peak: int
    capacity: int
    is_on_front: bool = False

    @property
    def seconds_per_token(self) -> float:
        """Seconds per token of one sequence; each step gives every sequence one token."""
        return max(self.step_seconds, self.bandwidth_seconds)

    @property
    def tokens_per_second(self) -> float:
        return self.batch / self.seconds_per_token

    @property
    def tokens_per_second_per_chip(self) -> float:
        return self.tokens_per_second / self.chips

    @property
    def fits(self) -> bool:
        return self.peak <= self.capacity

    def dominates(self, other: "DecodePoint") -> bool:
        """Return whether this point is no worse in latency and throughput per chip, and better in one."""
        ours, theirs = ((point.seconds_per_token, -point.tokens_per_second_per_chip) for point in (self, other))
        return ours != theirs and all(ours_value <= theirs_value for ours_value, theirs_value in zip(ours, theirs, strict=True))


@dataclass(frozen=True, slots=True)
class ImpossibleDecode:
    """A batch and slice without a legal mesh of the plan's axes, and the reason for the last mesh tried."""

    batch: int
    hardware: str
    why: str


@dataclass(frozen=True, slots=True)
class LatencyFront:
    """A plan's decoding step on several batches and slices, fastest first."""

    plan: str
    points: tuple[DecodePoint, ...]
    impossible: tuple[ImpossibleDecode, ...] = ()

    @property
    def front(self) -> tuple[DecodePoint, ...]:
        return tuple(point for point in self.points if point.is_on_front)

    def __str__(self) -> str:
        return latency_text(self)


_BOUND = "Times marked `*` are bytes moved divided by memory bandwidth, because the planned time is shorter."


def latency_text(found: LatencyFront) -> str:
    columns = ["front", "batch>", "hardware", "mesh", "a token>", "tokens/s>", "a chip>", "peak a device>", "fits"]
    parts = [found.plan, table_text(columns, map(_cells, found.points))]
    if any(_is_bound(point) for point in found.points):
        parts.append(wrap_text(_BOUND))
    return "\n\n".join([*parts, *_impossible_texts(found.impossible)])


def _impossible_texts(impossible: Iterable[ImpossibleDecode]) -> Iterator[str]:
    batches: dict[tuple[str, str], list[str]] = {}
    for case in impossible:
        batches.setdefault((case.hardware, case.why), []).append(f"{case.batch:,}")
    for (hardware, why), sizes in batches.items():
        yield wrap_text(f"batch {', '.join(sizes)} on {hardware}: {why}")


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
