"""What the devices of one stage run in a step, task by task, and its figures: what they send, compute, wait for and hold of the program's
arguments."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.sharding import Sharding, axis_size
from workbench.core.tensor import Role, Tensor
from workbench.cost.collective_times import collective_seconds
from workbench.cost.estimate import Estimate
from workbench.cost.step_flops import list_dots
from workbench.cost.value_records import kernel_list
from workbench.pipeline.block_layouts import tasks_of
from workbench.pipeline.estimate_block_cost import StageContext, estimate_tasks, make_stage_context
from workbench.pipeline.estimate_stage_costs import block_costs, estimate_each
from workbench.pipeline.stage_bytes import KeptByBlock, leaves_of_arguments, value_bytes, weigh_params
from workbench.pipeline.staged_program import StagedProgram
from workbench.reports.collective import Collective, sent_bytes
from workbench.reports.device_memory import Alive
from workbench.reports.kernel import Kernel
from workbench.reports.pipeline import PipelineReport
from workbench.reports.placement import Placement
from workbench.reports.step_time import DotCost, Flops, StepTime
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


# The figures of one stage over a step, each a sum over its blocks: what it sends, computes and waits for.

UPDATE = "update"
"""The path of what runs once a step, behind the last task."""
_GRADIENT_SUM = f"{UPDATE}/reduce_sum"  # as the operation is called in the program that runs


def stage_collectives(work: StageWork) -> tuple[Collective, ...]:
    """The collectives among the devices of the stage, alike ones together: of all tasks, and the sums of gradients of the update."""
    counts = Counter[Collective]()
    for block, estimated, times in work.runs:
        for each in estimated.collectives:
            counts[replace(each, path=block.path_of(each.path), count=1)] += each.count * times
    return (*(replace(each, count=count) for each, count in counts.items()), *update_collectives(work))


def update_collectives(work: StageWork) -> Iterator[Collective]:
    """The sums of gradients over the devices that share the micro-batches, once a step."""
    plan, step = work.staged.plan, work.planned.simulated
    for stage in step.stages_of(work.device):
        for (axes, kind), payload in step.costs[stage].sent_update:
            devices = prod(axis_size(axis, plan.mesh) for axis in axes)
            hardware, routes = plan.hardware, plan.axis_assignment
            seconds = collective_seconds(kind, axes, payload, plan.mesh, hardware, routes) if hardware else 0.0
            yield Collective(kind, axes, payload, sent_bytes(kind, payload, devices), 1, _GRADIENT_SUM, "", seconds)


def stage_kernels(work: StageWork) -> tuple[Kernel, ...]:
    """The kernels of all tasks, the longest first; empty without hardware."""
    counts = Counter[Kernel]()
    for block, estimated, times in work.runs:
        if estimated.times is not None:
            for each in kernel_list(estimated.plan.program, estimated.partitioned, estimated.kernels, estimated.times):
                counts[replace(each, path=block.path_of(each.path), count=1)] += each.count * times
    return tuple(sorted((replace(each, count=n) for each, n in counts.items()), key=lambda each: (-each.total_seconds, each.path)))


def stage_dots(work: StageWork) -> tuple[DotCost, ...]:
    """The dots of all tasks, the largest on one device first."""
    counts = Counter[DotCost]()
    for block, estimated, times in work.runs:
        for each in list_dots(estimated.plan.program, estimated.plan.mesh, estimated.partitioned):
            counts[replace(each, path=block.path_of(each.path), count=1)] += each.count * times
    return tuple(sorted((replace(each, count=n) for each, n in counts.items()), key=lambda each: -each.per_device * each.count))


def stage_flops(work: StageWork) -> Flops:
    """Operations of the stage in a step: `unique` over its devices, what is computed again included; `model` without that."""
    unique = sum(estimated.flops.unique * times for _, estimated, times in work.runs)
    local = sum(estimated.flops.per_device * times for _, estimated, times in work.runs)
    model = sum(estimated.flops.unique * block.backwards for block in work.blocks for estimated, _ in block.runs)
    return Flops(unique, local, work.context.mesh.size, model)


def count_kernels(work: StageWork) -> int:
    """Kernels that one device runs in a step, without the update."""
    return sum(int(estimated.kernels.times.sum()) * times for _, estimated, times in work.runs)


def stage_traffic(work: StageWork) -> int:
    """Bytes that one device reads and writes in its memory in a step: for its tasks, and once for the update."""
    return sum(estimated.traffic * times for _, estimated, times in work.runs) + 2 * work.planned.resident(work.device)


def seconds_at_peak(work: StageWork) -> float:
    """How long a device of the stage would compute its dots at the peak, with all that it computes again."""
    times = ((estimated.step_time, count) for _, estimated, count in work.runs if estimated.step_time is not None)
    return sum(each.hfu * each.total * count for each, count in times)


def stage_step_time(work: StageWork, whole: StepTime, at_peak: float) -> StepTime:
    """The step of one device of the stage in its parts, which sum to the pipeline's: kernels and communication of its tasks and of its
    update, and `idle`, the rest, in which it waits for other stages. `whole` is that of the program as one, for its names; a device of any
    stage computes `at_peak` seconds in the mean."""
    found = [(estimated.step_time, times) for _, estimated, times in work.runs if estimated.step_time is not None]
    parts = {
        name: sum(getattr(each, name) * times for each, times in found)
        for name in ("arithmetic", "memory", "launch", "exposed", "hidden", "host", "unestimated")
    }
    step = work.planned.simulated
    begins, ends = step.update_span(work.device)
    waited = sum(each.seconds for each in update_collectives(work))
    parts["memory"] += max(ends - begins - waited, 0.0)
    parts["exposed"] += waited
    busy = sum(parts[name] for name in ("arithmetic", "memory", "launch", "exposed", "host"))
    share = whole.total / step.seconds if step.seconds else 0.0
    idle = max(step.seconds - busy, 0.0)
    hfu = at_peak / step.seconds if step.seconds else 0.0
    return replace(whole, **parts, idle=idle, mfu=whole.mfu * share, hfu=hfu)


# What a stage holds of the program: its slices of parameters, their gradients and the optimiser's state, and what micro-batches keep.


@dataclass(frozen=True, eq=False)
class ResidentSlices:
    """The slices of one stage. A parameter that several virtual stages read is held, with its gradient, by each; the first of all updates
    it, and has the optimiser's state."""

    work: StageWork

    @cached_property
    def _counts(self) -> tuple[Counter[int], Counter[int]]:
        """For each parameter slice: how many virtual stages of this stage hold it, and how many update it."""
        planned, tasks = self.work.planned, tasks_of(self.work.staged.network)
        ends = list(accumulate(len(each.blocks) for each in planned.virtual_stages))
        held, owned, seen = Counter[int](), Counter[int](), set[int]()
        for virtual_stage, end in zip(planned.virtual_stages, ends, strict=True):
            blocks = tasks[end - len(virtual_stage.blocks) : end]
            slices = {each for task in blocks for each in task.stage.virtual_stage.param_slices}
            if virtual_stage.device == self.work.device:
                held.update(slices)
                owned.update(slices - seen)
            seen |= slices
        return held, owned

    @cached_property
    def by_role(self) -> dict[Role, int]:
        """Bytes that stay throughout the step; their sum is the resident bytes of the stage."""
        weights = weigh_params(self.work.staged.plan, self.work.staged.network)
        held, owned = self._counts
        return {
            Role.PARAMETER: sum(weights[each].param * count for each, count in held.items()),
            Role.GRADIENT: sum(weights[each].sums * count for each, count in held.items()),
            Role.OPTIMIZER_STATE: sum(weights[each].state * count for each, count in owned.items()),
        }

    @cached_property
    def alive(self) -> tuple[Alive, ...]:
        """The same by path: each parameter, its gradients, and the optimiser's state for it."""
        network = self.work.staged.network
        weights = weigh_params(self.work.staged.plan, network)
        held, owned = self._counts
        found: dict[tuple[str, Role], list[int]] = {}
        for role, counts in ((Role.PARAMETER, held), (Role.GRADIENT, held), (Role.OPTIMIZER_STATE, owned)):
            for each, count in counts.items():
                size = {Role.PARAMETER: weights[each].param, Role.GRADIENT: weights[each].sums}.get(role, weights[each].state)
                path = network.parameter_paths[network.flat.param_slices[each][0].leaf]
                entry = found.setdefault((path, role), [0, 0])
                entry[0] += size * count
                entry[1] += count
        return tuple(Alive(path, role, size, count) for (path, role), (size, count) in found.items())

    def kept_parts(self, stage: int, *, recomputed: bool) -> Iterator[tuple[str, int]]:
        """What one micro-batch keeps on a virtual stage, by block, in bytes."""
        staged = self.work.staged
        starts = tuple(accumulate(len(each.blocks) for each in self.work.planned.virtual_stages[:-1]))
        sizes = [each.held for each in value_bytes(self.work.context, staged.network)]
        kept = KeptByBlock(sizes, block_costs(staged), tasks_of(staged.network), starts)
        why = "its input, for recomputation" if recomputed else "kept for its backward pass"
        for block, size in kept.input_activations(stage) if recomputed else kept.residuals(stage):
            yield f"{staged.network.paths[block]} ({why})", size

    @cached_property
    def arguments(self) -> tuple[Placement, ...]:
        """The arguments of the program, of each the layers that the stage holds; the batch where it reads it."""
        plan, network = self.work.staged.plan, self.work.staged.network
        leaves = leaves_of_arguments(network, plan.program.arguments)
        placed = zip(plan.program.arguments, plan.argument_shardings, leaves, strict=True)
        return tuple(found for each in placed if (found := self._place(*each)) is not None)

    def _place(self, tensor: Tensor, sharding: Sharding, leaf: int) -> Placement | None:
        """The tensor with the layers that the stage holds of it; `None` where it holds nothing."""
        mesh = self.work.staged.plan.mesh
        if tensor.role is Role.INPUT:
            return Placement(tensor, sharding, mesh) if tensor.path in self._batch_paths else None
        counts, slices = self._counts[tensor.role is Role.OPTIMIZER_STATE], self.work.staged.network.flat.param_slices
        layers = [slices[each][0].layer for each in self._slices_of_leaf.get(leaf, ()) if each in counts]
        if not layers or None in layers:
            return Placement(tensor, sharding, mesh) if layers else None
        return Placement(replace(tensor, shape=(len(layers), *tensor.shape[1:])), Sharding(((), *sharding.dims[1:])), mesh)

    @cached_property
    def _slices_of_leaf(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number, (param_slice, _) in enumerate(self.work.staged.network.flat.param_slices):
            found.setdefault(param_slice.leaf, []).append(number)
        return found

    @cached_property
    def _batch_paths(self) -> frozenset[str]:
        network, tasks = self.work.staged.network, tasks_of(self.work.staged.network)
        number = {path: place for place, path in enumerate(network.paths)}
        leaves = {leaf for block in self.work.blocks for leaf in tasks[number[block.path]].stage.virtual_stage.batch}
        return frozenset(network.batch_paths[leaf] for leaf in leaves)
