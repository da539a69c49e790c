"""Work of one stage's devices in a step by task, with its figures: communication, computation, idle time, and resident
arguments.
"""

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
from workbench.pipeline.stage_bytes import KeptByBlock, param_slice_bytes, parameter_indices, value_bytes
from workbench.pipeline.staged_program import StagedProgram
from workbench.reports.collective import Collective, sent_bytes
from workbench.reports.device_memory import Alive
from workbench.reports.kernel import Kernel
from workbench.reports.pipeline import PipelineReport
from workbench.reports.placement import Placement
from workbench.reports.step_time import DotCost, Flops, StepTime
from workbench.tracing.stage_partition.block_programs import BlockTasks
from workbench.tracing.stage_partition.trace_network import Network

_GRAD = "grad/"  # prefix of paths in the backward pass


class StageBlock(NamedTuple):
    """One block of a stage with the number of its tasks' executions per step (`forwards`, `backwards`).

    `forward`, `backward`: estimates of one micro-batch, possibly of an earlier equal block, whose path is `like`;
    `number`: its virtual stage.
    """

    path: str
    like: str
    number: int
    forward: Estimate
    backward: Estimate
    forwards: int
    backwards: int

    def path_of(self, path: str) -> str:
        """Translate an operation's path to this block: the estimate may be of `layers/0` for the block `layers/3`."""
        grad = _GRAD if path.startswith(_GRAD) else ""
        rest = path.removeprefix(grad)
        inside = rest == self.like or rest.startswith(f"{self.like}/")
        return f"{grad}{self.path}{rest[len(self.like) :]}" if inside else path

    @property
    def runs(self) -> tuple[tuple[Estimate, int], tuple[Estimate, int]]:
        return (self.forward, self.forwards), (self.backward, self.backwards)


@dataclass(frozen=True, eq=False)
class StageWork:
    """Blocks of one stage in network order; `context` is the stage's view of the plan."""

    staged: StagedProgram
    planned: PipelineReport
    device: int
    context: StageContext
    blocks: tuple[StageBlock, ...]

    @property
    def runs(self) -> Iterator[tuple[StageBlock, Estimate, int]]:
        for block in self.blocks:
            for estimated, times in block.runs:
                if times:
                    yield block, estimated, times


def stage_work(staged: StagedProgram, planned: PipelineReport) -> tuple[StageWork, ...]:
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
    return dict(zip(network.paths, estimate_each(_named_tasks, context, network), strict=True))


def _named_tasks(block: BlockTasks, stage: StageContext) -> _BlockEstimates:
    """Estimate a block; `like` is the path of the block whose trace is estimated."""
    return _BlockEstimates(block.exemplar.stage.virtual_stage.blocks[0], *estimate_tasks(block, stage))


def _blocks_of(planned: PipelineReport, device: int, estimates: dict[str, _BlockEstimates]) -> Iterator[StageBlock]:
    recomputed = planned.simulated.recomputed[device]
    for virtual_stage in planned.virtual_stages:
        if virtual_stage.device == device:
            for path in virtual_stage.blocks:
                like, forward, backward = estimates[path]
                yield StageBlock(path, like, virtual_stage.number, forward, backward, len(recomputed) + sum(recomputed), len(recomputed))


# Figures of one stage over a step, each a sum over its blocks.

UPDATE = "update"
"""Path of the work after the last task, once per step."""
_GRADIENT_SUM = f"{UPDATE}/reduce_sum"  # name of the operation in the executed program


def stage_collectives(work: StageWork) -> tuple[Collective, ...]:
    """Return the merged collectives among the stage's devices: of all tasks, and the update's gradient sums."""
    counts = Counter[Collective]()
    for block, estimated, times in work.runs:
        for collective in estimated.collectives:
            counts[replace(collective, path=block.path_of(collective.path), count=1)] += collective.count * times
    return (*(replace(collective, count=count) for collective, count in counts.items()), *update_collectives(work))


def update_collectives(work: StageWork) -> Iterator[Collective]:
    """Yield the gradient sums over the devices that share the micro-batches, once per step."""
    plan, step = work.staged.plan, work.planned.simulated
    for stage in step.stages_of(work.device):
        for (axes, kind), payload in step.costs[stage].sent_update:
            devices = prod(axis_size(axis, plan.mesh) for axis in axes)
            hardware, routes = plan.hardware, plan.axis_assignment
            seconds = collective_seconds(kind, axes, payload, plan.mesh, hardware, routes) if hardware else 0.0
            yield Collective(kind, axes, payload, sent_bytes(kind, payload, devices), 1, _GRADIENT_SUM, "", seconds)


def stage_kernels(work: StageWork) -> tuple[Kernel, ...]:
    """Return the kernels of all tasks, longest first; empty without hardware."""
    counts = Counter[Kernel]()
    for block, estimated, times in work.runs:
        if estimated.times is not None:
            for kernel in kernel_list(estimated.plan.program, estimated.partitioned, estimated.kernels, estimated.times):
                counts[replace(kernel, path=block.path_of(kernel.path), count=1)] += kernel.count * times
    return tuple(
        sorted((replace(merged, count=n) for merged, n in counts.items()), key=lambda merged: (-merged.total_seconds, merged.path))
    )


def stage_dots(work: StageWork) -> tuple[DotCost, ...]:
    """Return the dots of all tasks, largest per device first."""
    counts = Counter[DotCost]()
    for block, estimated, times in work.runs:
        for dot in list_dots(estimated.plan.program, estimated.plan.mesh, estimated.partitioned):
            counts[replace(dot, path=block.path_of(dot.path), count=1)] += dot.count * times
    return tuple(sorted((replace(merged, count=n) for merged, n in counts.items()), key=lambda merged: -merged.per_device * merged.count))


def stage_flops(work: StageWork) -> Flops:
    """FLOPs of the stage in a step: `unique` over its devices including recomputation; `model` without it."""
    unique = sum(estimated.flops.unique * times for _, estimated, times in work.runs)
    local = sum(estimated.flops.per_device * times for _, estimated, times in work.runs)
    model = sum(estimated.flops.unique * block.backwards for block in work.blocks for estimated, _ in block.runs)
    return Flops(unique, local, work.context.mesh.size, model)


def count_kernels(work: StageWork) -> int:
    """Kernels that one device runs in a step, without the update."""
    return sum(int(estimated.kernels.times.sum()) * times for _, estimated, times in work.runs)


def stage_traffic(work: StageWork) -> int:
    """Memory bytes that one device reads and writes in a step: for its tasks, and once for the update."""
    return sum(estimated.traffic * times for _, estimated, times in work.runs) + 2 * work.planned.resident(work.device)


def seconds_at_peak(work: StageWork) -> float:
    """Seconds of a stage's dots at peak FLOP/s, including recomputation."""
    times = ((estimated.step_time, count) for _, estimated, count in work.runs if estimated.step_time is not None)
    return sum(step_time.hfu * step_time.total * count for step_time, count in times)


def stage_step_time(work: StageWork, whole: StepTime, at_peak: float) -> StepTime:
    """Return the step time of one device of the stage by part, with the same total as the pipeline.

    `idle` is the rest, waiting for other stages. `whole` is the step time as a single program, used for its names;
    `at_peak` is the mean of `seconds_at_peak` over stages.
    """
    tasks = [(estimated.step_time, times) for _, estimated, times in work.runs if estimated.step_time is not None]
    parts = {
        name: sum(getattr(step_time, name) * times for step_time, times in tasks)
        for name in ("arithmetic", "memory", "launch", "exposed", "hidden", "host", "unestimated")
    }
    step = work.planned.simulated
    start, end = step.update_span(work.device)
    exposed = sum(collective.seconds for collective in update_collectives(work))
    parts["memory"] += max(end - start - exposed, 0.0)
    parts["exposed"] += exposed
    busy = sum(parts[name] for name in ("arithmetic", "memory", "launch", "exposed", "host"))
    share = whole.total / step.seconds if step.seconds else 0.0
    idle = max(step.seconds - busy, 0.0)
    hfu = at_peak / step.seconds if step.seconds else 0.0
    return replace(whole, **parts, idle=idle, mfu=whole.mfu * share, hfu=hfu)


# Memory of a stage: slices of parameters, gradients and optimizer state, and residuals of micro-batches.


@dataclass(frozen=True, eq=False)
class ResidentSlices:
    """Parameter slices of one stage.

    A parameter that several virtual stages read is resident, with its gradient, on each; the first one updates it and
    has its optimizer state.
    """

    work: StageWork

    @cached_property
    def _counts(self) -> tuple[Counter[int], Counter[int]]:
        """For each parameter slice the number of this stage's virtual stages that hold it, and that update it."""
        planned, tasks = self.work.planned, tasks_of(self.work.staged.network)
        ends = list(accumulate(len(virtual_stage.blocks) for virtual_stage in planned.virtual_stages))
        holders, owners, seen = Counter[int](), Counter[int](), set[int]()
        for virtual_stage, end in zip(planned.virtual_stages, ends, strict=True):
            blocks = tasks[end - len(virtual_stage.blocks) : end]
            slices = {number for task in blocks for number in task.stage.virtual_stage.param_slices}
            if virtual_stage.device == self.work.device:
                holders.update(slices)
                owners.update(slices - seen)
            seen |= slices
        return holders, owners

    @cached_property
    def by_role(self) -> dict[Role, int]:
        """Bytes that stay throughout the step; their sum is the resident bytes of the stage."""
        weights = param_slice_bytes(self.work.staged.plan, self.work.staged.network)
        holders, owners = self._counts
        return {
            Role.PARAMETER: sum(weights[number].param * count for number, count in holders.items()),
            Role.GRADIENT: sum(weights[number].sums * count for number, count in holders.items()),
            Role.OPTIMIZER_STATE: sum(weights[number].state * count for number, count in owners.items()),
        }

    @cached_property
    def alive(self) -> tuple[Alive, ...]:
        """Bytes that stay throughout the step by path and role."""
        network = self.work.staged.network
        weights = param_slice_bytes(self.work.staged.plan, network)
        holders, owners = self._counts
        entries: dict[tuple[str, Role], list[int]] = {}
        for role, counts in ((Role.PARAMETER, holders), (Role.GRADIENT, holders), (Role.OPTIMIZER_STATE, owners)):
            for number, count in counts.items():
                size = {Role.PARAMETER: weights[number].param, Role.GRADIENT: weights[number].sums}.get(role, weights[number].state)
                path = network.parameter_paths[network.flat.param_slices[number][0].leaf]
                entry = entries.setdefault((path, role), [0, 0])
                entry[0] += size * count
                entry[1] += count
        return tuple(Alive(path, role, size, count) for (path, role), (size, count) in entries.items())

    def kept_parts(self, stage: int, *, recomputed: bool) -> Iterator[tuple[str, int]]:
        """Yield the bytes that one micro-batch keeps on a virtual stage, by block."""
        staged = self.work.staged
        starts = tuple(accumulate(len(virtual_stage.blocks) for virtual_stage in self.work.planned.virtual_stages[:-1]))
        sizes = [value.held for value in value_bytes(self.work.context, staged.network)]
        kept = KeptByBlock(sizes, block_costs(staged), tasks_of(staged.network), starts)
        reason = "its input, for recomputation" if recomputed else "kept for its backward pass"
        for block, size in kept.input_activations(stage) if recomputed else kept.residuals(stage):
            yield f"{staged.network.paths[block]} ({reason})", size

    @cached_property
    def arguments(self) -> tuple[Placement, ...]:
        """Arguments of the program with the stage's layers; the batch only if the stage reads it."""
        plan, network = self.work.staged.plan, self.work.staged.network
        leaves = parameter_indices(network, plan.program.arguments)
        placed = zip(plan.program.arguments, plan.argument_shardings, leaves, strict=True)
        return tuple(placement for entry in placed if (placement := self._place(*entry)) is not None)

    def _place(self, tensor: Tensor, sharding: Sharding, leaf: int) -> Placement | None:
        mesh = self.work.staged.plan.mesh
        if tensor.role is Role.INPUT:
            return Placement(tensor, sharding, mesh) if tensor.path in self._batch_paths else None
        counts, slices = self._counts[tensor.role is Role.OPTIMIZER_STATE], self.work.staged.network.flat.param_slices
        layers = [slices[number][0].layer for number in self._slices_of_leaf.get(leaf, ()) if number in counts]
        if not layers or None in layers:
            return Placement(tensor, sharding, mesh) if layers else None
        return Placement(replace(tensor, shape=(len(layers), *tensor.shape[1:])), Sharding(((), *sharding.dims[1:])), mesh)

    @cached_property
    def _slices_of_leaf(self) -> dict[int, list[int]]:
        slices: dict[int, list[int]] = {}
        for number, (param_slice, _) in enumerate(self.work.staged.network.flat.param_slices):
            slices.setdefault(param_slice.leaf, []).append(number)
        return slices

    @cached_property
    def _batch_paths(self) -> frozenset[str]:
        network, tasks = self.work.staged.network, tasks_of(self.work.staged.network)
        number = {path: place for place, path in enumerate(network.paths)}
        leaves = {leaf for block in self.work.blocks for leaf in tasks[number[block.path]].stage.virtual_stage.batch}
        return frozenset(network.batch_paths[leaf] for leaf in leaves)
