"""The cost of one block, or of one whole stage, estimated as a program of its own over the devices of a stage.

What is traced belongs to the network and is cached with it. The cost depends on the devices of one stage, and on nothing else of the plan:
`StageContext` says what on, so that it is found in the cache for another schedule, another boundary, or another number of stages with the
same devices per stage.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.path_patterns import matches
from workbench.core.program import Program
from workbench.core.schedules.stage_cost import Payload, sum_payloads
from workbench.core.sharding import Sharding, axes_overlap, axis_size
from workbench.core.tensor import Role, Tensor
from workbench.cost.collective_times import closest_spans
from workbench.cost.estimate import Estimate, estimate_propagated
from workbench.cost.tile_padding import tiled_bytes
from workbench.errors import WorkbenchError
from workbench.hardware.axis_placement import PhysicalSpan
from workbench.hardware.hardware import Hardware
from workbench.pipeline.staged_program import StagedProgram, find_data_parallel_groups
from workbench.plan.plan import Plan
from workbench.propagation import Propagated, partition, read_result_dims
from workbench.reports.collective import payload_by_axis_and_kind
from workbench.reports.device_memory import ARGUMENT_ROLES
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups
from workbench.tracing.stage_partition.block_programs import TOTAL, BlockTasks

NOMINAL = 1e12  # operations per second where no hardware is chosen
_NUMBER = re.compile(r"/\d+(?=/|$)")  # of a layer, in a path
PlacedPaths = tuple[tuple[str, Sharding], ...]
"""Arguments or results of a task, as `kept/2`, with their shardings."""


@dataclass(frozen=True, slots=True)
class StageContext:
    """A plan as one stage of it sees it; with equal contexts, blocks cost the same.

    - `mesh`: the plan's without the axis of the stages; `physical_spans`: where each of its axes runs on the hardware, beside that axis;
    - `parts`: how the stage's devices share a micro-batch;
    - `layout`: the plan's, as far as blocks see it (`layout_of_blocks`);
    - `plan`: one of the plans with this context, without its pipeline; its mesh has the axis of the stages, whose devices run other
      programs. Where its optimiser's state lies does not count;
    - `entering`: of one block, the shardings of what its tasks read beside parameters and batch (`block_layouts`).
    """

    program: Program
    layout: Layout
    hardware: Hardware | None
    mesh: Mesh
    physical_spans: tuple[tuple[PhysicalSpan, ...], ...]
    parts: DataParallelGroups
    plan: Plan = field(compare=False, repr=False)
    entering: PlacedPaths = ()

    @property
    def anywhere(self) -> "StageContext":
        """The same wherever its axes run: no sharding depends on that, what is sent takes other times."""
        return replace(self, physical_spans=())

    @property
    def adds_separately(self) -> bool:
        """Whether a gradient is made before it is added to the sum: XLA:CPU has no dots that accumulate into an existing array."""
        return self.hardware is None or self.hardware.chip.platform not in ("tpu", "cuda")


def make_stage_context(staged: StagedProgram) -> StageContext:
    """The plan as each of its stages sees it."""
    plan = staged.plan
    mesh = Mesh({name: size for name, size in plan.mesh.axes if name != staged.spec.axis})
    known = closest_spans(plan.mesh, plan.hardware, plan.axis_assignment) if plan.hardware else {}
    runs = tuple(known.get(name, ()) for name in mesh.names)
    layout, parts = layout_of_blocks(plan), find_data_parallel_groups(staged)
    return StageContext(plan.program, layout, plan.hardware, mesh, runs, parts, plan.updated(pipeline=None, name=""))


def layout_of_blocks(plan: Plan) -> Layout:
    """The layout without the overrides that meet the optimiser's state alone: no block reads it, so that blocks cost the same with and
    without ZeRO's first stage."""
    paths = [tensor.path for tensor in plan.program.arguments if tensor.role is not Role.OPTIMIZER_STATE]
    read = tuple(each for each in plan.layout.overrides if any(matches(each[0], path) for path in paths))
    return plan.layout if len(read) == len(plan.layout.overrides) else plan.layout.updated(overrides=read)


class TaskBytes(NamedTuple):
    """Bytes of one task on one device, beyond parameters, accumulated gradients and the optimiser's state: what it reads, what it returns
    (`made`), and what it has besides at its worst moment (`working`).

    `staying` is what it reads that a micro-batch leaves on the device between its tasks: batch data, input activations of the stage,
    residuals of the forward pass; `arriving` are gradients of the stage's outputs, `pending` what the first half of a backward task made
    for the second. `read` lists all of these by path. `anywhere` is `working` with what stays on the chip.
    """

    staying: int
    arriving: int
    pending: int
    made: int
    working: int
    read: tuple[tuple[str, int], ...]
    anywhere: int = 0

    @property
    def reads(self) -> int:
        return self.staying + self.arriving + self.pending

    @property
    def beside(self) -> int:
        """All bytes but `staying`."""
        return self.arriving + self.pending + self.made + self.working

    @property
    def whole(self) -> int:
        return self.staying + self.beside


class TogetherBytes(NamedTuple):
    """Bytes that a block's forward and backward pass have as one program, beyond what it reads and returns: `kept` from one to the other,
    `most` at the worst moment, and `anywhere`, with what stays on the chip, at the worst of those."""

    kept: int
    most: int
    anywhere: int


class BlockCost(NamedTuple):
    """The cost of one block, for one micro-batch on one device of its stage: seconds; bytes of its forward pass and of its backward pass
    without recomputation; the payload of the collectives in the forward task, and in the forward and the backward task; the bytes that
    leave a device in them, and FLOP of the dots, in the same two ways; `once`: seconds that the first micro-batch takes in addition;
    `shareable`: of those of forward and of backward, as many as replicas save at most that share parameters and gradients."""

    path: str
    forward: float
    backward_input: float
    backward_weight: float
    at_forward: TaskBytes
    at_backward: TaskBytes
    sent_forward: Payload
    sent_both: Payload
    outgoing_forward: int = 0
    outgoing_both: int = 0
    flops_forward: int = 0
    flops_both: int = 0
    once: float = 0.0
    shareable: tuple[float, float] = (0.0, 0.0)

    @property
    def work(self) -> float:
        """Seconds of forward and backward, without recomputation."""
        return self.forward + self.backward_input + self.backward_weight

    def kept(self, places: Sequence[int]) -> int:
        """Bytes on one device of these places in what the forward pass keeps for the backward pass."""
        read = dict(self.at_backward.read)
        return sum(read.get(f"kept/{place}", 0) for place in places)


def estimate_block(block: BlockTasks, stage: StageContext) -> BlockCost:
    """Estimate a block: its backward pass as the task that runs it, which reads what the forward pass left, and adds every gradient to the
    sum over micro-batches. That is in the product where the back end has products that add to an array, else a pass over gradient and sum:
    it costs a micro-batch the same however few samples it has."""
    forward, backward_task = estimate_tasks(block, stage)
    one, backward = _estimate_seconds(block, stage, forward, backward_task)
    weight = backward * block.weight_share
    sent_forward, sent_backward = (tuple(payload_by_axis_and_kind(each.collectives).items()) for each in (forward, backward_task))
    outgoing = [sum(each.total_sent for each in task.collectives) for task in (forward, backward_task)]
    return BlockCost(
        block.stage.virtual_stage.blocks[0],
        one,
        backward - weight,
        weight,
        _count_task_bytes(forward),
        _count_task_bytes(backward_task),
        sent_forward,
        sum_payloads((sent_forward, sent_backward)),
        outgoing[0],
        sum(outgoing),
        forward.flops.per_device,
        forward.flops.per_device + backward_task.flops.per_device,
        forward.once + backward_task.once,
        (forward.shareable, backward_task.shareable),
    )


def estimate_together(block: BlockTasks, stage: StageContext) -> TogetherBytes:
    """Bytes of a block's forward and backward pass as one program, where the first operation of the backward pass runs and at most."""
    both = _estimate_alone(block.both_program(stage.parts), stage)
    curve = both.over_step.curve()
    roles = [counts for role, counts in curve.by_role.items() if role not in (*ARGUMENT_ROLES, Role.OUTPUT)]
    alive = [sum(each) for each in zip(*roles, strict=True)] or [0]
    turn = next((i for i, path in enumerate(curve.paths) if path.startswith("grad/")), 0)
    most = max(alive)
    return TogetherBytes(min(alive[max(turn - 1, 0) : turn + 1], default=0), most, max(most, both.over_step.bytes_anywhere))


def estimate_tasks(block: BlockTasks, stage: StageContext) -> tuple[Estimate, Estimate]:
    """The forward task and the backward task of a block as they run."""
    running = block.backward_program(stage.parts, recompute=False, add_separately=stage.adds_separately)
    return _estimate_alone(block.forward_program, stage), _estimate_alone(running, stage)


def task_bytes(program: Program, stage: StageContext) -> TaskBytes:
    """Bytes of a task's program alone on the devices of a stage."""
    return _count_task_bytes(_estimate_alone(program, stage))


def _count_task_bytes(found: Estimate) -> TaskBytes:
    hardware = found.hardware
    tile = hardware.chip.array_tile if hardware else ()
    sizes = [(each.tensor, tiled_bytes(each.local_shape, each.tensor.dtype, tile)) for each in found.arguments]
    read = tuple((tensor.path, size) for tensor, size in sizes if tensor.role is Role.INPUT)
    state_bytes = sum(size for tensor, size in sizes if tensor.role is not Role.INPUT)
    sums = {group: sum(size for path, size in read if path.startswith(f"{group}/")) for group in ("arriving", "pending")}
    staying = sum(size for _, size in read) - sum(sums.values())
    made = found.memory.by_role.get(Role.OUTPUT, 0)
    working = found.memory.peak - state_bytes - sum(size for _, size in read) - made
    anywhere = max(working, found.over_step.bytes_anywhere)
    return TaskBytes(staying, sums["arriving"], sums["pending"], made, working, read, anywhere)


def _estimate_seconds(block: BlockTasks, stage: StageContext, forward: Estimate, backward: Estimate) -> tuple[float, float]:
    """Seconds forward and backward. Without hardware one for each `NOMINAL` operations or, if there are none, for as many bytes of traffic;
    backward are then those of both passes, as one program, beyond the forward pass alone."""
    if forward.step_time is not None and backward.step_time is not None:
        return forward.step_time.total, backward.step_time.total
    both = _estimate_alone(block.both_program(stage.parts), stage)
    counts = [each.flops.per_device for each in (forward, both)]
    one, two = counts if any(counts) else (forward.traffic, both.traffic)
    return one / NOMINAL, max(two - one, 0) / NOMINAL


def _estimate_alone(program: Program, stage: StageContext) -> Estimate:
    layout, planned = _propagate_task(program, stage.anywhere)
    whole = stage.plan
    plan = Plan(program, whole.mesh, layout, hardware=whole.hardware, axis_assignment=whole.axis_assignment)
    return estimate_propagated(plan, planned, stage.mesh)


@cache_with_program(300)
def _propagate_task(program: Program, stage: StageContext) -> tuple[Layout, Propagated]:
    """The layout of a task, and Shardy's answer to it, which stages over other links share."""
    plan = plan_task(program, stage)
    return plan.layout, partition(plan, plan.hardware)


def place_results(program: Program, stage: StageContext) -> PlacedPaths:
    """How Shardy leaves the results of a task, by path: each dimension with the round (`Sharding.priorities`) after which it was so."""
    return _place_results(program, stage.anywhere)


@cache_with_program(20)
def _place_results(program: Program, stage: StageContext) -> PlacedPaths:
    plan = plan_task(program, stage)
    rounds = sorted(
        {0, *(priority for _, sharding in (*plan.layout.overrides, *plan.layout.constraints) for priority in sharding.priorities)}
    )
    after = [read_result_dims(_until_round(plan, each)) for each in rounds[:-1]]
    found = []
    for number, (tensor, dims) in enumerate(zip(program.results, read_result_dims(plan), strict=True)):
        reached = (next((k for k, each in enumerate(after) if each[number][i] == axes), -1) for i, axes in enumerate(dims))
        priorities = tuple(rounds[k] if axes else 0 for k, axes in zip(reached, dims, strict=True))
        found.append((tensor.path, Sharding(dims, priorities=priorities)))
    return tuple(found)


def _until_round(plan: Plan, last: int) -> Plan:
    """The plan as propagation sees it up to a round: without the axes whose turn is later."""

    def until(statements: Sequence[tuple[str, Sharding]]) -> tuple[tuple[str, Sharding], ...]:
        return tuple((pattern, sharding.until_round(last)) for pattern, sharding in statements)

    layout = plan.layout
    return plan.updated(layout=layout.updated(overrides=until(layout.overrides), constraints=until(layout.constraints)))


def plan_task(program: Program, stage: StageContext) -> Plan:
    """A plan for a block's program alone over the stage's devices: parameters and batch data sharded as in the whole plan, other inputs as
    they enter the block."""
    plan, layout, entering = stage.plan, stage.layout, dict(stage.entering)
    by_path = {tensor.path: (tensor, each) for tensor, each in zip(plan.program.arguments, plan.argument_shardings, strict=True)}
    overrides = []
    for tensor in program.arguments:
        if tensor.role in (Role.PARAMETER, Role.GRADIENT):
            path = tensor.path.removeprefix(f"{TOTAL}/")
            whole, sharding = by_path.get(path) or by_path[path.rpartition("/")[0]]
            first = (stage.parts.axes,) if len(tensor.shape) > len(whole.shape) else ()
            dims = [dim or () for dim in sharding.dims]
            param_dims = dims if whole.shape == tensor.shape[len(first) :] else [(), *dims[1:]]
            rounds = [sharding.priority(i) if axes else 0 for i, axes in enumerate(param_dims)]
            overrides.append((f"/{tensor.path}", Sharding((*first, *param_dims), priorities=(*(0 for _ in first), *rounds))))
        else:
            at_rest = by_path[tensor.path][1] if tensor.path in by_path else entering.get("/".join(tensor.path.split("/")[:2]))
            if at_rest and (sharding := _divide_value(tensor, at_rest, plan)).axes:
                overrides.append((f"/{tensor.path}", sharding))
    alone = Plan(program, plan.mesh, Layout((), tuple(overrides)), hardware=plan.hardware, axis_assignment=plan.axis_assignment)
    return _add_constraints(alone, layout.constraints)


def _add_constraints(plan: Plan, constraints: Sequence[tuple[str, Sharding]]) -> Plan:
    """The plan with those constraints that name one of its values, and that divide what a micro-batch has of a dimension."""
    paths = dict.fromkeys(operation.path for operation in plan.program.operations)
    for pattern, sharding in constraints:
        for each in _patterns_in_block(pattern, paths):
            with suppress(WorkbenchError):
                plan = plan.updated(layout=plan.layout.updated(constraints=(*plan.layout.constraints, (each, sharding))))
    return plan


def _patterns_in_block(pattern: str, paths: Iterable[str]) -> tuple[str, ...]:
    """The pattern as it names values of a block: what is `layers/mlp/add` in a loop over layers is `layers/3/mlp/add` in a block."""
    if any(matches(pattern, path) for path in paths):
        return (pattern,)
    return tuple(f"/{path}" for path in paths if (unnumbered := _NUMBER.sub("", path)) != path and matches(pattern, unnumbered))


def _divide_value(tensor: Tensor, at_rest: Sharding, plan: Plan) -> Sharding:
    """The sharding of an activation, the first dimension first; an axis is left out where it does not divide what a micro-batch has of a
    dimension, or already splits an earlier one."""
    found: list[tuple[str, ...]] = []
    for axes, size in zip((each or () for each in at_rest.dims), tensor.shape, strict=True):
        is_taken = any(axes_overlap(axis, other) for axis in axes for each in found for other in each)
        found.append(() if is_taken or size % prod(axis_size(axis, plan.mesh) for axis in axes) else axes)
    return Sharding(tuple(found), priorities=tuple(at_rest.priority(i) if axes else 0 for i, axes in enumerate(found)))
