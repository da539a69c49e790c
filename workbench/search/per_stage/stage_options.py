"""What each stage would cost with each of several layouts, and which of them each stage takes.

Alpa (Zheng et al. 2022, arXiv:2201.12023) splits a search so: fronts inside a stage, an exact choice across stages. Here the fronts are the
layouts that the search knows anyway, each planned once for all stages; what a stage costs with one of them does not depend on what others
have, but for what crosses their boundaries.
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
"""For each stage the number of its layout."""


class StageOption(NamedTuple):
    """A stage with one of the layouts: seconds of a micro-batch forward and backward, recomputation and what it waits for included, and
    peak bytes of one of its devices."""

    seconds: float
    memory: float


@dataclass(frozen=True, slots=True)
class StageOptions:
    """`options[layout][stage]`, and `limit`, bytes of a device."""

    options: tuple[tuple[StageOption, ...], ...]
    limit: float

    def fastest(self) -> Assignment:
        """For each stage the fastest layout that fits, the one with least memory where none does; of those as fast, the least memory."""
        return tuple(self._least(stage, self._fitting(stage), by_memory=False) for stage in self._stages)

    def leanest(self) -> Assignment:
        """For each stage the layout with least memory that is no slower than the slowest stage of `fastest`, which sets the pace."""
        chosen = self.fastest()
        pace = max(self.options[layout][stage].seconds for stage, layout in enumerate(chosen))
        found = []
        for stage in self._stages:
            others = [each for each in self._fitting(stage) if self.options[each][stage].seconds <= pace * _ALIKE]
            found.append(self._least(stage, others, by_memory=True))
        return tuple(found)

    @property
    def _stages(self) -> range:
        return range(len(self.options[0]))

    def _fitting(self, stage: int) -> list[int]:
        return [number for number, each in enumerate(self.options) if each[stage].memory <= self.limit]

    def _least(self, stage: int, layouts: Sequence[int], *, by_memory: bool) -> int:
        if not layouts:
            return min(range(len(self.options)), key=lambda each: self.options[each][stage].memory)
        fastest = min(self.options[each][stage].seconds for each in layouts)
        alike = [each for each in layouts if by_memory or self.options[each][stage].seconds <= fastest * _ALIKE]
        return min(alike, key=lambda each: self.options[each][stage].memory)


def list_stage_options(layouts: Sequence[StagedProgram], starts: Sequence[int], limit: float) -> StageOptions:
    """What each stage costs with each of the layouts, all with a boundary before these blocks: the planner's own figures."""
    return StageOptions(tuple(tuple(_list_options(each, starts)) for each in layouts), limit)


def _list_options(staged: StagedProgram, starts: Sequence[int]) -> Iterator[StageOption]:
    spec, costs = staged.spec, partition_costs(staged, starts)
    peaks = simulate(spec, costs, transfer_of(staged.plan)).peaks
    for stage, (cost, peak) in enumerate(zip(costs, peaks, strict=True)):
        passes = 2 if spec.recomputes(0, stage) else 1
        yield StageOption(passes * cost.forward + cost.backward_input + cost.backward_weight, peak)


def find_own_starts(tables: Sequence[StageTables], spec: PipelineSpec, limit: float) -> tuple[int, ...] | None:
    """The first block of each stage but the first where each stage takes the fastest layout that fits: of all partitions and layouts those
    whose slowest stage is fastest. `None` where nothing fits."""

    def seconds(device: int) -> Table:
        again = spec.recomputes(0, device)
        return np.minimum.reduce([np.where(each.peaks(spec, device) <= limit, each.seconds(recomputed=again), np.inf) for each in tables])

    slowest, starts = least_of_largest(seconds, spec.stages)
    return starts if np.isfinite(slowest) else None
