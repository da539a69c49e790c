"""The rows of a comparison: figures, collectives and pipeline stages in each tier."""

from collections.abc import Mapping
from typing import NamedTuple

from workbench.reports.compiled import Compiled

SAME_WITHIN = 0.02
"""Relative difference up to which two figures count as the same."""


def is_same(one: float, other: float) -> bool:
    """Within `SAME_WITHIN` of each other."""
    return abs(one - other) <= SAME_WITHIN * max(one, other)


Volumes = Mapping[tuple[tuple[str, ...], str], int]  # payload bytes by (mesh axes, kind)


class CollectiveRow(NamedTuple):
    """Payload bytes per device and step over one set of mesh axes: as planned, and as compiled."""

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


class StageRow(NamedTuple):
    """A device of one stage of a pipeline: bytes it was planned to hold throughout and at its peak, and to send to the others of its stage
    in a step; and the stage as compiled. `as_one` is the peak planned from each virtual stage as one program, which is nearer to the
    compiled one than the sum over its blocks that the plan is shown with."""

    stage: int
    held: int
    peak: int
    as_one: int
    payload: int
    compiled: Compiled

    @property
    def compiled_payload(self) -> int:
        return sum(each.total_payload for each in self.compiled.collectives)


class ComparedFigure(NamedTuple):
    """One figure in up to three tiers (predicted, compiled, measured); `None` where a tier does not give it. Bytes, seconds or FLOP, by
    `unit`."""

    name: str
    unit: str
    predicted: float | None
    compiled: float | None
    measured: float | None

    @property
    def best_known(self) -> float | None:
        """The figure of the last tier that has it."""
        return self.measured if self.measured is not None else self.compiled

    @property
    def error(self) -> float | None:
        """The relative error of the prediction against the last tier that has the figure: 0.1 is a tenth too much."""
        if self.predicted is None or not self.best_known:
            return None
        return self.predicted / self.best_known - 1

    @property
    def verdict(self) -> str:
        """The error in words; empty where there is none to report."""
        if self.error is None:
            return ""
        if abs(self.error) < 0.005:
            return "the same"
        return f"{abs(self.error):.0%} {'more' if self.error > 0 else 'less'}"
