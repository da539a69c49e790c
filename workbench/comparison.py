"""One plan's figures side by side: as predicted, as compiled, as measured; and why two of them differ.

Views, the command line and the tests read the same `Comparison`. Collectives are compared by class: all-reduce and reduce-scatter are one,
`reduce`, for XLA:CPU makes an all-reduce and a slice of the latter; permutes that a compiler made of a gather count as that gather.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from workbench.compiled import Compiled
from workbench.differences import Difference, explain
from workbench.kernel_differences import KernelDifference, explain_kernels
from workbench.measurement import Measurement
from workbench.memory_differences import MemoryDifference, explain_memory
from workbench.report import Report, collective_class
from workbench.sharding import base_axis

CLOSE = 0.02
"""Relative difference up to which two figures are called the same."""


def is_same(one: float, other: float) -> bool:
    """Within `CLOSE` of each other."""
    return abs(one - other) <= CLOSE * max(one, other)


class CollectiveRow(NamedTuple):
    """Payload bytes a device and step over one set of mesh axes: as planned, and as compiled."""

    axes: tuple[str, ...]
    kind: str
    predicted: int
    compiled: int

    @property
    def agrees(self) -> bool:
        return self.predicted == self.compiled

    @property
    def is_close(self) -> bool:
        return is_same(self.predicted, self.compiled)


class Figure(NamedTuple):
    """One figure in up to three tiers; `None` where a tier does not give it. Bytes, seconds or FLOP, by `unit`."""

    name: str
    unit: str
    predicted: float | None
    compiled: float | None
    measured: float | None

    @property
    def truest(self) -> float | None:
        """The figure of the last tier that has it."""
        return self.measured if self.measured is not None else self.compiled

    @property
    def error(self) -> float | None:
        """How far the prediction is off, relative to the truest figure there is: 0.1 is a tenth too much."""
        if self.predicted is None or not self.truest:
            return None
        return self.predicted / self.truest - 1

    @property
    def verdict(self) -> str:
        """The error in words; empty where there is none to tell."""
        if self.error is None:
            return ""
        if abs(self.error) < 0.005:
            return "the same"
        return f"{abs(self.error):.0%} {'more' if self.error > 0 else 'less'}"


@dataclass(frozen=True)
class Comparison:
    """A report beside what the compiler made of the plan, beside what a run measured; either may be missing."""

    report: Report
    compiled: Compiled | None = None
    measurement: Measurement | None = None

    @cached_property
    def collectives(self) -> tuple[CollectiveRow, ...]:
        """By set of mesh axes and class, the heaviest first."""
        if self.compiled is not None:
            return compare_collectives(self.report, self.compiled.by_axis_and_kind)
        return compare_collectives(self.report, self.measurement.compiled) if self.measurement else ()

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Each collective that one side has and the other has not, or has more often, with its cause; the heaviest first."""
        return explain(self.report, self.compiled) if self.compiled is not None else ()

    @cached_property
    def memory_differences(self) -> tuple[MemoryDifference, ...]:
        """What each side holds at its peak and the other does not, by named scope; empty where the peaks are the same."""
        if self.compiled is None or is_same(self.report.memory.peak, self.compiled.memory.peak):
            return ()
        return explain_memory(self.report, self.compiled)

    @cached_property
    def kernel_differences(self) -> tuple[KernelDifference, ...]:
        """Kernels that take longer on one side, by named scope; empty where the sums are the same or the compiler estimates no times."""
        time, compiled = self.report.step_time, self.compiled
        if time is None or compiled is None or compiled.compute_seconds is None or is_same(time.estimate, compiled.compute_seconds):
            return ()
        return explain_kernels(self.report, compiled)

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        """Memory, arithmetic and time."""
        return tuple(figure for figure in (*self._memory(), *self._work(), *self._time()) if _tiers(figure) > 1)

    def _memory(self) -> Iterator[Figure]:
        compiled, measured = self.compiled, self.measurement
        peak = compiled.memory.peak if compiled else measured.compiled_peak if measured else None
        yield Figure("peak memory", "bytes", self.report.memory.peak, peak, measured.device_peak if measured else None)
        held = sum(each.local_bytes for each in self.report.arguments)
        yield Figure("arguments", "bytes", held, compiled.memory.arguments if compiled else None, None)

    def _work(self) -> Iterator[Figure]:
        compiled = self.compiled.flops if self.compiled and self.compiled.kernels else None
        yield Figure("products", "FLOP", self.report.flops.per_device, compiled, None)

    def _time(self) -> Iterator[Figure]:
        """A measured step stands beside what was predicted for the devices it ran on, which need not be those of the plan."""
        time, measured = self.report.step_time, self.measurement
        compiled = self.compiled.compute_seconds if self.compiled else None
        yield Figure("kernels", "seconds", time.estimate if time else None, compiled, None)
        if measured is not None:
            yield Figure("step", "seconds", measured.predicted_seconds, None, measured.median_seconds)
        elif time is not None:
            yield Figure("step", "seconds", time.total, None, None)

    def __str__(self) -> str:
        from workbench.comparison_text import comparison_text

        return comparison_text(self)

    def _repr_html_(self) -> str:
        from workbench.tables import html_of

        return html_of(lambda: str(self))


def _tiers(figure: Figure) -> int:
    return sum(each is not None for each in (figure.predicted, figure.compiled, figure.measured))


def compare_collectives(report: Report, compiled: Mapping[tuple[tuple[str, ...], str], int]) -> tuple[CollectiveRow, ...]:
    """A row for each set of mesh axes and class of collective that either has, the heaviest first. A sub-axis counts as its axis."""
    predicted, found = _by_class(report.by_axis_and_kind, report), _by_class(compiled, report)
    rows = (CollectiveRow(*key, predicted.get(key, 0), found.get(key, 0)) for key in {**predicted, **found})
    return tuple(sorted(rows, key=lambda row: (-max(row.predicted, row.compiled), row.axes, row.kind)))


def _by_class(volumes: Mapping[tuple[tuple[str, ...], str], int], report: Report) -> dict[tuple[tuple[str, ...], str], int]:
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for (axes, kind), volume in volumes.items():
        used = {base_axis(axis) for axis in axes}
        key = tuple(name for name in report.mesh.names if name in used), collective_class(kind)
        sums[key] = sums.get(key, 0) + volume
    return sums
