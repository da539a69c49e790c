"""The plan's collectives beside those of the compiled program."""

from collections.abc import Mapping
from typing import NamedTuple

from workbench.report import Report
from workbench.sharding import base_axis

_CLASS = {"all-reduce": "reduce", "reduce-scatter": "reduce"}
"""Kinds that are one class: XLA:CPU forms no reduce-scatter but an all-reduce, of the same payload, and a slice."""


class CollectiveRow(NamedTuple):
    """Payload bytes a device and step over one set of mesh axes: as planned, and as compiled."""

    axes: tuple[str, ...]
    kind: str
    predicted: int
    compiled: int

    @property
    def agrees(self) -> bool:
        return self.predicted == self.compiled


def compare_collectives(report: Report, compiled: Mapping[tuple[tuple[str, ...], str], int]) -> tuple[CollectiveRow, ...]:
    """A row for each set of mesh axes and class of collective that either of them has, the heaviest first.

    All-reduce and reduce-scatter are one class, `reduce`; a Shardy sub-axis counts as its axis.
    """
    predicted, found = _by_class(report.by_axis_and_kind, report), _by_class(compiled, report)
    rows = (CollectiveRow(*key, predicted.get(key, 0), found.get(key, 0)) for key in {**predicted, **found})
    return tuple(sorted(rows, key=lambda row: (-max(row.predicted, row.compiled), row.axes, row.kind)))


def _by_class(volumes: Mapping[tuple[tuple[str, ...], str], int], report: Report) -> dict[tuple[tuple[str, ...], str], int]:
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for (axes, kind), volume in volumes.items():
        used = {base_axis(axis) for axis in axes}
        key = tuple(name for name in report.mesh.names if name in used), _CLASS.get(kind, kind)
        sums[key] = sums.get(key, 0) + volume
    return sums
