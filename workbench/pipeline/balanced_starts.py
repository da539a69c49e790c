"""Where a pipeline's boundaries are by balance, sending counted: the few partitions that may be best, and the one whose step is shortest.

How much of what a boundary sends is hidden depends on the schedule and on its micro-batches: GPipe fills a link while its devices compute,
one-forward-one-backward waits for each micro-batch there and back. So blocks are balanced in three ways: alone, as if sending took no time;
with what is sent at a stage's two ends, as if a device did nothing meanwhile; and by the longer of the two, as if all of it went on beside.
Where these are different partitions, the step is simulated with each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules.stage_cost import StageCost
from workbench.pipeline.balance import balance
from workbench.pipeline.choose_boundaries import verify_enough_blocks
from workbench.pipeline.estimate_block_cost import BlockCost
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_transfer import Transfer
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.stage_partition.partition_network import StageValue, starts_at

Starts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sending:
    """What blocks send: `values` of the network partitioned at every block, their `sizes` in bytes on one device (`value_bytes`), by a
    `transfer`."""

    values: tuple[StageValue, ...]
    sizes: tuple[int, ...]
    transfer: Transfer

    def seconds_behind(self, blocks: int) -> list[float]:
        """Seconds that a boundary behind each block sends a micro-batch forward: what was made up to there and is read later."""
        crossing = [0] * blocks
        for value, size in zip(self.values, self.sizes, strict=True):
            for block in range(value.maker, max(value.readers)):
                crossing[block] += size
        return [self.transfer.seconds(count) for count in crossing]


def assign_blocks(bounds: Sequence[int]) -> tuple[int, ...]:
    """The stage of each block, where stage k has the blocks from `bounds[k]` up to `bounds[k + 1]`.

    >>> assign_blocks((0, 1, 3))
    (0, 1, 1)
    """
    return tuple(stage for stage, (a, b) in enumerate(pairwise(bounds)) for _ in range(a, b))


def list_sends(values: Sequence[StageValue], sizes: Sequence[int], stage_of: Sequence[int]) -> list[tuple[tuple[int, int], ...]]:
    """For each stage: (later stage, bytes of one micro-batch on one device) for each stage that reads what it makes; `sizes` are those of
    the values."""
    found: list[dict[int, int]] = [{} for _ in range(max(stage_of) + 1)]
    for value, size in zip(values, sizes, strict=True):
        stage = stage_of[value.maker]
        for reader in {stage_of[each] for each in value.readers} - {stage}:
            found[stage][reader] = found[stage].get(reader, 0) + size
    return [tuple(sorted(each.items())) for each in found]


def balanced_starts(network: Network, spec: PipelineSpec, costs: Sequence[BlockCost], sending: Sending) -> Starts:
    """The block each virtual stage but the first begins with: those the user named, and for the rest, of the partitions that balance the
    blocks, the one whose simulated step is shortest."""
    candidates = list_balanced_starts(network, spec, costs, sending)
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=partial(_step_seconds, spec, costs, sending))


def list_balanced_starts(network: Network, spec: PipelineSpec, costs: Sequence[BlockCost], sending: Sending) -> tuple[Starts, ...]:
    """The partitions that balance the blocks, each once: alone, with what is sent at their ends, with that beside them. One alone where all
    stages are one program, which is to be of equal stages."""
    fixed = starts_at(network, spec.boundaries)
    verify_enough_blocks(network.name, network.paths, spec)
    work, sent = [each.work for each in costs], sending.seconds_behind(len(costs))
    even = balance(work, spec.virtual_stages, fixed=fixed).starts
    if spec.engine == "spmd" or not any(sent):
        return (even,)
    others = (balance(work, spec.virtual_stages, sent=sent, overlapped=each, fixed=fixed).starts for each in (False, True))
    return tuple(dict.fromkeys((even, *others)))


def _step_seconds(spec: PipelineSpec, costs: Sequence[BlockCost], sending: Sending, starts: Starts) -> float:
    bounds = (0, *starts, len(costs))
    pieces = [costs[a:b] for a, b in pairwise(bounds)]
    stages = [
        StageCost(
            sum(each.forward for each in piece),
            sum(each.backward_input for each in piece),
            sum(each.backward_weight for each in piece),
            sends=sends,
        )
        for piece, sends in zip(pieces, list_sends(sending.values, sending.sizes, assign_blocks(bounds)), strict=True)
    ]
    return simulate(spec, stages, sending.transfer).seconds
