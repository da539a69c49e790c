"""Costs of each stage with each of several layouts, and the choice of a layout per stage.

Alpa (Zheng et al. 2022, arXiv:2201.12023) splits the search in this way: fronts within a stage, an exact choice across
stages. The fronts here are the layouts of the search, each planned once for all stages; the cost of a stage with one of
them does not depend on the layouts of other stages, except at the boundaries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from workbench.core.pipeline_spec import PipelineSpec
from workbench.pipeline.estimate_stage_costs import partition_costs
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_transfer import transfer_of
from workbench.pipeline.staged_program import StagedProgram
from workbench.search.per_stage.stage_tables import StageTables, Table
from workbench.search.uneven_boundaries import least_of_largest

_ALIKE = 1 + 1e-9
Assignment = tuple[int, ...]
"""The index of its layout for each stage."""


class StageOption(NamedTuple):
    """Seconds per micro-batch, with recomputation and exposed communication, and peak bytes per device."""

    seconds: float
    memory: float


@dataclass(frozen=True, slots=True)
class StageOptions:
    """`options[layout][stage]`, and `limit` in bytes per device."""

    options: tuple[tuple[StageOption, ...], ...]
    limit: float

    def fastest(self) -> Assignment:
        """Per stage the fastest layout that fits, else the one with the least memory."""
        return tuple(self._least(stage, self._fitting(stage), by_memory=False) for stage in self._stages)

    def leanest(self) -> Assignment:
        """Per stage the layout with least memory that is no slower than the slowest of `fastest`."""
        chosen = self.fastest()
        pace = max(self.options[layout][stage].seconds for stage, layout in enumerate(chosen))
        layouts = []
        for stage in self._stages:
            others = [layout for layout in self._fitting(stage) if self.options[layout][stage].seconds <= pace * _ALIKE]
            layouts.append(self._least(stage, others, by_memory=True))
        return tuple(layouts)

    @property
    def _stages(self) -> range:
        return range(len(self.options[0]))

    def _fitting(self, stage: int) -> list[int]:
        return [number for number, stages in enumerate(self.options) if stages[stage].memory <= self.limit]

    def _least(self, stage: int, layouts: Sequence[int], *, by_memory: bool) -> int:
        if not layouts:
            return min(range(len(self.options)), key=lambda layout: self.options[layout][stage].memory)
        fastest = min(self.options[layout][stage].seconds for layout in layouts)
        candidates = [layout for layout in layouts if by_memory or self.options[layout][stage].seconds <= fastest * _ALIKE]
        return min(candidates, key=lambda layout: self.options[layout][stage].memory)


def list_stage_options(layouts: Sequence[StagedProgram], starts: Sequence[int], limit: float) -> StageOptions:
    """Costs of each stage with each layout, with boundaries before the blocks `starts`: the planner's own figures."""
    return StageOptions(tuple(tuple(_list_options(layout, starts)) for layout in layouts), limit)


def _list_options(staged: StagedProgram, starts: Sequence[int]) -> Iterator[StageOption]:
    spec, costs = staged.spec, partition_costs(staged, starts)
    peaks = simulate(spec, costs, transfer_of(staged.plan)).peaks
    for stage, (cost, peak) in enumerate(zip(costs, peaks, strict=True)):
        passes = 2 if spec.recomputes(0, stage) else 1
        yield StageOption(passes * cost.forward + cost.backward_input + cost.backward_weight, peak)


def find_fastest_partition(tables: Sequence[StageTables], spec: PipelineSpec, limit: float) -> tuple[int, ...] | None:
    """First blocks that minimize the slowest stage, each with its fastest fitting layout; `None` if none fits."""

    def seconds(device: int) -> Table:
        recomputed = spec.recomputes(0, device)
        return np.minimum.reduce(
            [np.where(table.peaks(spec, device) <= limit, table.seconds(recomputed=recomputed), np.inf) for table in tables]
        )

    slowest, starts = least_of_largest(seconds, spec.stages)
    return starts if np.isfinite(slowest) else None
