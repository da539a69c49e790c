"""What the devices of one stage run in a step: the task of each block, estimated as a program of its own, and how often it runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.cost.estimate import Estimate
from workbench.pipeline.estimate_block_cost import StageContext, estimate_tasks, make_stage_context
from workbench.pipeline.estimate_stage_costs import estimate_each
from workbench.pipeline.staged_program import StagedProgram
from workbench.reports.pipeline import PipelineReport
from workbench.tracing.stage_partition.block_programs import BlockTasks
from workbench.tracing.stage_partition.network_blocks import Network

_GRAD = "grad/"  # before the path of an operation of the backward pass


class StageBlock(NamedTuple):
    """One block on its stage: `forward` and `backward` are estimates of one micro-batch, of this block or of an earlier one that is alike,
    whose path is `like`; `forwards` and `backwards` say how often they run in a step. `number` is the virtual stage."""

    path: str
    like: str
    number: int
    forward: Estimate
    backward: Estimate
    forwards: int
    backwards: int

    def path_of(self, path: str) -> str:
        """The path of an operation as it is in this block: what is estimated may be `layers/0` where this is `layers/3`."""
        grad = _GRAD if path.startswith(_GRAD) else ""
        rest = path.removeprefix(grad)
        inside = rest == self.like or rest.startswith(f"{self.like}/")
        return f"{grad}{self.path}{rest[len(self.like) :]}" if inside else path

    @property
    def runs(self) -> tuple[tuple[Estimate, int], tuple[Estimate, int]]:
        """Each task with its executions a step."""
        return (self.forward, self.forwards), (self.backward, self.backwards)


@dataclass(frozen=True, eq=False)
class StageWork:
    """The blocks of one stage in the order of the network; `context` is the plan as the stage sees it."""

    staged: StagedProgram
    planned: PipelineReport
    device: int
    context: StageContext
    blocks: tuple[StageBlock, ...]

    @property
    def runs(self) -> Iterator[tuple[StageBlock, Estimate, int]]:
        """Each task of each block with its executions a step; those that run."""
        for block in self.blocks:
            for estimated, times in block.runs:
                if times:
                    yield block, estimated, times


def stage_work(staged: StagedProgram, planned: PipelineReport) -> tuple[StageWork, ...]:
    """The work of each stage of a planned pipeline."""
    context = make_stage_context(staged)
    estimates = _block_estimates(context, staged.network)
    return tuple(
        StageWork(staged, planned, device, context, tuple(_blocks_of(planned, device, estimates))) for device in range(staged.spec.stages)
    )


class _BlockEstimates(NamedTuple):
    like: str
    forward: Estimate
    backward: Estimate


@cache_with_program(12_000)
def _block_estimates(context: StageContext, network: Network) -> dict[str, _BlockEstimates]:
    """By the path of each block."""
    return dict(zip(network.paths, estimate_each(_named_tasks, context, network), strict=True))


def _named_tasks(block: BlockTasks, stage: StageContext) -> _BlockEstimates:
    """The estimates of a block, with the path of the block whose trace is estimated."""
    return _BlockEstimates(block.exemplar.stage.virtual_stage.blocks[0], *estimate_tasks(block, stage))


def _blocks_of(planned: PipelineReport, device: int, estimates: dict[str, _BlockEstimates]) -> Iterator[StageBlock]:
    recomputed = planned.simulated.recomputed[device]
    for virtual_stage in planned.virtual_stages:
        if virtual_stage.device == device:
            for path in virtual_stage.blocks:
                like, forward, backward = estimates[path]
                yield StageBlock(path, like, virtual_stage.number, forward, backward, len(recomputed) + sum(recomputed), len(recomputed))
