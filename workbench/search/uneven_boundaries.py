"""Stage boundaries other than those of balanced time: by memory, or the fastest that fit.

Under 1F1B the first stages hold the most micro-batches, the first and last also have the embedding and the loss, and
stages that recompute take longer, so the fastest partition that fits is often uneven (AdaPipe, ASPLOS 2024; Mist,
EuroSys 2025). With one chunk per device, the cost of a stage depends only on its device and its blocks, and dynamic
programming finds the best partition: `best[b]`, over the first b blocks in the stages so far, is the least over a of
the larger of `best[a]` and the cost of blocks a to b - 1.

time      the slowest stage is as fast as possible, without recomputation: the default of a pipeline
memory    the fullest device holds the least memory; among these, the slowest stage is as fast as possible
fit       the slowest stage, with recomputation, is as fast as possible within the memory limit; `memory` if nothing fits
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
"""Maps a stage number to the costs of all block ranges: float64[blocks, blocks + 1], infinite if not allowed."""


def choose_boundaries(staged: StagedProgram, rule: str, most_memory: float = np.inf) -> PipelineSpec:
    """The pipeline with all boundaries chosen by a rule of `BOUNDARIES`, each by the name of its block; none is named
    if they equal those by time.

    `most_memory` is the limit of a device for `fit`, bytes. Raises `PipelineError` for an unknown rule, several chunks
    per device, or too few blocks.
    """
    spec, network = replace(staged.spec, boundaries=()), staged.network
    if rule not in BOUNDARIES:
        raise PipelineError(*unknown_name("rule for boundaries", rule, BOUNDARIES))
    if rule == BY_TIME:
        return spec
    verify_enough_blocks(network.name, network.paths, spec)
    if spec.chunks > 1:
        raise PipelineError(
            f"Boundaries by memory need one chunk per device; the pipeline has {spec.chunks}.", ["use boundaries by time", "take chunks:1"]
        )
    starts = find_uneven_starts(make_stage_tables(staged), spec, most_memory if rule == "fit" else 0.0)
    by_time = plan_starts(replace(staged, spec=spec))
    return spec if starts == by_time else replace(spec, boundaries=tuple(network.paths[start] for start in starts))


def find_uneven_starts(tables: StageTables, spec: PipelineSpec, most_memory: float) -> tuple[int, ...]:
    """First blocks of all stages but the first, in the partition with the fastest slowest stage within `most_memory`
    (or the least possible memory); the most even one among equals.
    """

    def seconds(device: int, limit: float) -> Table:
        return np.where(tables.peaks(spec, device) <= limit, tables.seconds(recomputed=spec.recomputes(0, device)), np.inf)

    def peaks(device: int) -> Table:
        return np.where(np.isfinite(tables.forward), tables.peaks(spec, device), np.inf)

    limit = max(most_memory, least_of_largest(peaks, spec.stages)[0])
    slowest, _ = least_of_largest(lambda device: seconds(device, limit), spec.stages)

    def squares(device: int) -> Table:
        stage_seconds = seconds(device, limit)
        return np.where(stage_seconds <= slowest, stage_seconds * stage_seconds, np.inf)

    return _solve(squares, spec.stages, np.add)[1]


def least_of_largest(cost: CostOfStage, stages: int) -> tuple[float, tuple[int, ...]]:
    """Minimize the cost of the most expensive stage. Returns that cost and the first blocks of all stages but the
    first.

    >>> costs = np.array([[np.inf, 1.0, 3.0, 6.0], [np.inf, np.inf, 2.0, 5.0], [np.inf, np.inf, np.inf, 3.0]])
    >>> least_of_largest(lambda stage: costs, 2)
    (3.0, (2,))
    """
    return _solve(cost, stages, np.maximum)


def _solve(cost: CostOfStage, stages: int, combine: Callable[[Table, Table], Table]) -> tuple[float, tuple[int, ...]]:
    """Minimize the combined cost over all partitions. Returns that cost (infinite if there is none) and the first
    blocks of all stages but the first.
    """
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
