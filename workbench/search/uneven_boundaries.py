"""Boundaries that are not those of balanced time: by memory, or as fast as fits.

Under 1F1B the first stages hold the most micro-batches, the ends have the embedding and the loss besides, and stages that recompute take
longer. So the fastest partition that fits is often uneven (AdaPipe, ASPLOS 2024; Mist, EuroSys 2025). With one chunk a device, what a stage
costs depends on its device and its blocks alone, and the best of all partitions is found by dynamic programming: `best[b]`, of the first b
blocks in the stages so far, is the least over a of the larger of `best[a]` and the cost of blocks a to b - 1.

    time      the slowest stage is fastest, without recomputation: what a pipeline does that names no boundary
    memory    the fullest device holds least, and of such partitions the slowest stage is fastest
    fit       the slowest stage, recomputation with it, is fastest of those that fit into so much memory; where none does, as `memory`
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from workbench.core.pipeline_spec import PipelineSpec
from workbench.errors import PipelineError, unknown_name
from workbench.pipeline.balance import verify_enough_blocks
from workbench.pipeline.estimate_stage_costs import plan_starts
from workbench.pipeline.staged_program import StagedProgram
from workbench.search.per_stage.stage_tables import StageTables, Table, make_stage_tables

BY_TIME = "time"
BOUNDARIES = (BY_TIME, "memory", "fit")
CostOfStage = Callable[[int], Table]
"""Of a stage's number the costs of all blocks it may have: float64[blocks, blocks + 1], infinite where it may not."""


def choose_boundaries(staged: StagedProgram, rule: str, most_memory: float = np.inf) -> PipelineSpec:
    """The pipeline with all boundaries by a rule of `BOUNDARIES`, each by its block's name; none is named where they are those by time.

    `most_memory`: bytes of a device, for `fit`. Raises `PipelineError` for an unknown rule, several chunks a device, or too few blocks.
    """
    spec, network = replace(staged.spec, boundaries=()), staged.network
    if rule not in BOUNDARIES:
        raise PipelineError(*unknown_name("rule for boundaries", rule, BOUNDARIES))
    if rule == BY_TIME:
        return spec
    verify_enough_blocks(network.name, network.paths, spec)
    if spec.chunks > 1:
        raise PipelineError(
            f"Boundaries by memory need one chunk per device; the pipeline has {spec.chunks}.",
            ["use boundaries by time", "take chunks:1"],
        )
    starts = find_uneven_starts(make_stage_tables(staged), spec, most_memory if rule == "fit" else 0.0)
    by_time = plan_starts(replace(staged, spec=spec))
    return spec if starts == by_time else replace(spec, boundaries=tuple(network.paths[each] for each in starts))


def find_uneven_starts(tables: StageTables, spec: PipelineSpec, most_memory: float) -> tuple[int, ...]:
    """The first block of each stage but the first: of the partitions whose fullest device holds `most_memory` at most, or as little as any,
    the one whose slowest stage is fastest; of several the most even."""

    def seconds(device: int, limit: float) -> Table:
        return np.where(tables.peaks(spec, device) <= limit, tables.seconds(recomputed=spec.recomputes(0, device)), np.inf)

    def peaks(device: int) -> Table:
        return np.where(np.isfinite(tables.forward), tables.peaks(spec, device), np.inf)

    limit = max(most_memory, least_of_largest(peaks, spec.stages)[0])
    slowest, _ = least_of_largest(lambda device: seconds(device, limit), spec.stages)

    def squares(device: int) -> Table:
        found = seconds(device, limit)
        return np.where(found <= slowest, found * found, np.inf)

    return _solve(squares, spec.stages, np.add)[1]


def least_of_largest(cost: CostOfStage, stages: int) -> tuple[float, tuple[int, ...]]:
    """The least cost of the stage that costs most, and the first blocks of the stages but the first in such a partition.

    >>> costs = np.array([[np.inf, 1.0, 3.0, 6.0], [np.inf, np.inf, 2.0, 5.0], [np.inf, np.inf, np.inf, 3.0]])
    >>> least_of_largest(lambda stage: costs, 2)
    (3.0, (2,))
    """
    return _solve(cost, stages, np.maximum)


def _solve(cost: CostOfStage, stages: int, combine: Callable[[Table, Table], Table]) -> tuple[float, tuple[int, ...]]:
    """The least combined cost of all partitions, and the first blocks of its stages but the first; infinite where there is none."""
    first = cost(0)
    best, chosen = first[0], []
    for stage in range(1, stages):
        totals = combine(best[:-1, None], cost(stage))
        chosen.append(totals.argmin(axis=0))
        best = totals.min(axis=0)
    starts = [len(best) - 1]
    for choice in reversed(chosen):
        starts.append(int(choice[starts[-1]]))
    return float(best[-1]), tuple(reversed(starts[1:]))
