"""What a step of decoding makes on several batches and slices: latency against throughput, and which of them are on the front."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from workbench.core.text_tables import table_text, wrap_text
from workbench.units import format_bytes, format_seconds


@dataclass(frozen=True, slots=True)
class DecodePoint:
    """One batch on one slice of hardware: the mesh of that many devices on which its step is the quickest of those that fit.

    - `step_seconds`: the step time of the plan; `bandwidth_seconds`: the bytes that its kernels read and write over the bandwidth of a
      device's memory. Decoding reads everything once: XLA:TPU estimates less where it fetches operands ahead of a kernel, and no run is
      less;
    - `peak`, `capacity`: bytes of a device;
    - `is_on_front`: it fits, and no other that fits has both a lower latency and a higher throughput a chip.
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
        """Of one sequence: every sequence of the batch gets a token in each step."""
        return max(self.step_seconds, self.bandwidth_seconds)

    @property
    def tokens_per_second(self) -> float:
        """Of all sequences together."""
        return self.batch / self.seconds_per_token

    @property
    def tokens_per_second_per_chip(self) -> float:
        return self.tokens_per_second / self.chips

    @property
    def fits(self) -> bool:
        return self.peak <= self.capacity

    def dominates(self, other: "DecodePoint") -> bool:
        """Whether it is as good in latency and in throughput a chip, and better in one of them."""
        ours, theirs = ((each.seconds_per_token, -each.tokens_per_second_per_chip) for each in (self, other))
        return ours != theirs and all(mine <= yours for mine, yours in zip(ours, theirs, strict=True))


@dataclass(frozen=True, slots=True)
class ImpossibleDecode:
    """A batch on a slice for which no mesh of the plan's axes is legal, and why the last one is not."""

    batch: int
    hardware: str
    why: str


@dataclass(frozen=True, slots=True)
class LatencyFront:
    """A plan's step of decoding on several batches and slices, the quickest first."""

    plan: str
    points: tuple[DecodePoint, ...]
    impossible: tuple[ImpossibleDecode, ...] = ()

    @property
    def front(self) -> tuple[DecodePoint, ...]:
        """Those on the front, the lowest latency first."""
        return tuple(each for each in self.points if each.is_on_front)

    def __str__(self) -> str:
        return latency_text(self)


_BOUND = "Times marked `*` are bytes moved divided by memory bandwidth, because the planned time is shorter."


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
