"""Rows of a comparison: figures, collectives and pipeline stages in each tier."""

from collections.abc import Mapping
from typing import NamedTuple

from workbench.reports.compiled import Compiled

SAME_WITHIN = 0.02
"""Relative difference up to which figures count as equal."""


def is_same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME_WITHIN * max(one, other)


Volumes = Mapping[tuple[tuple[str, ...], str], int]  # payload bytes by (mesh axes, kind)


class CollectiveRow(NamedTuple):
    """Planned and compiled payload bytes per device and step over one set of mesh axes."""

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
    """A device of one pipeline stage: planned bytes `held`, at the `peak`, and sent (`payload`); and the compiled
    stage.

    `as_one` is the peak planned with each virtual stage as one program, which is closer to the compiled peak than
    `peak`, a sum over blocks.
    """

    stage: int
    held: int
    peak: int
    as_one: int
    payload: int
    compiled: Compiled

    @property
    def compiled_payload(self) -> int:
        return sum(collective.total_payload for collective in self.compiled.collectives)


class ComparedFigure(NamedTuple):
    """One figure in up to three tiers, in bytes, seconds or FLOP (`unit`); `None` if a tier lacks it."""

    name: str
    unit: str
    predicted: float | None
    compiled: float | None
    measured: float | None

    @property
    def best_known(self) -> float | None:
        """The figure of the highest tier that has it."""
        return self.measured if self.measured is not None else self.compiled

    @property
    def error(self) -> float | None:
        """Relative error of the prediction against `best_known`, such as 0.1 for 10 % too much."""
        if self.predicted is None or not self.best_known:
            return None
        return self.predicted / self.best_known - 1

    @property
    def verdict(self) -> str:
        if self.error is None:
            return ""
        if abs(self.error) < 0.005:
            return "the same"
        return f"{abs(self.error):.0%} {'more' if self.error > 0 else 'less'}"
