"""Estimate the cost of a block, or of a whole stage, as a separate program over the devices of a stage.

The traced program belongs to the network and is cached with it. The cost depends only on the devices of one stage
(`StageContext`), so that it is cached across schedules, boundaries, and numbers of stages with the same devices per
stage.
"""

import re
from collections.abc import Iterable, Sequence
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
from workbench.hardware.axis_placement import PhysicalSpan
from workbench.hardware.hardware import Hardware
from workbench.pipeline.staged_program import StagedProgram, find_data_parallel_groups
from workbench.plan.layout_legality import constraint_errors
from workbench.plan.plan import Plan
from workbench.propagation import Propagated, partition, read_result_dims
from workbench.reports.collective import payload_by_axis_and_kind
from workbench.reports.device_memory import ARGUMENT_ROLES
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups
from workbench.tracing.stage_partition.block_programs import TOTAL, BlockTasks

NOMINAL = 1e12  # FLOP/s without hardware
_NUMBER = re.compile(r"/\d+(?=/|$)")  # a layer number in a path
PlacedPaths = tuple[tuple[str, Sharding], ...]
"""Arguments or results of a task, such as `kept/2`, with their shardings."""


@dataclass(frozen=True, slots=True)
class StageContext:
    """The part of a plan that determines the cost of a stage's blocks; equal contexts have equal costs.

    - `mesh`: the plan's without the stage axis; `physical_spans`: where each of its axes runs on the hardware beside
      that axis;
    - `parts`: how the stage's devices share a micro-batch;
    - `layout`: the part of the plan's layout that affects blocks (`layout_of_blocks`);
    - `plan`: one of the plans with this context, without its pipeline; its mesh includes the stage axis, whose devices
      run other programs. The sharding of its optimizer state does not matter;
    - `entering`: shardings of the inputs of a block's tasks other than parameters and batch (`block_layouts`).
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
        """The context without physical spans, which affect transfer times but no shardings."""
        return replace(self, physical_spans=())

    @property
    def adds_separately(self) -> bool:
        """Whether gradients are computed before they are accumulated: XLA:CPU has no dots that add to an array."""
        return self.hardware is None or self.hardware.chip.platform not in ("tpu", "cuda")


def make_stage_context(staged: StagedProgram) -> StageContext:
    plan = staged.plan
    mesh = Mesh({name: size for name, size in plan.mesh.axes if name != staged.spec.axis})
    spans_by_axis = closest_spans(plan.mesh, plan.hardware, plan.axis_assignment) if plan.hardware else {}
    spans = tuple(spans_by_axis.get(name, ()) for name in mesh.names)
    layout, parts = layout_of_blocks(plan), find_data_parallel_groups(staged)
    return StageContext(plan.program, layout, plan.hardware, mesh, spans, parts, plan.updated(pipeline=None, name=""))


def layout_of_blocks(plan: Plan) -> Layout:
    """Return the layout without overrides of optimizer state alone, so that blocks cost the same with ZeRO stage 1."""
    paths = [tensor.path for tensor in plan.program.arguments if tensor.role is not Role.OPTIMIZER_STATE]
    overrides = tuple(override for override in plan.layout.overrides if any(matches(override[0], path) for path in paths))
    return plan.layout if len(overrides) == len(plan.layout.overrides) else plan.layout.updated(overrides=overrides)


class TaskBytes(NamedTuple):
    """Bytes of one task on one device, beyond parameters, accumulated gradients and optimizer state.

    - `staying`: inputs that stay on the device between a micro-batch's tasks: batch data, the stage's input
      activations, residuals;
    - `arriving`: gradients of the stage's outputs; `pending`: values from the first half of a backward task for the
      second;
    - `made`: results; `working`: temporaries at the peak; `anywhere`: `working` including on-chip memory;
    - `read`: all inputs by path.
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
        return self.arriving + self.pending + self.made + self.working

    @property
    def whole(self) -> int:
        return self.staying + self.beside


class TogetherBytes(NamedTuple):
    """Bytes of a block's forward and backward pass as one program, beyond its inputs and results.

    `kept`: from one pass to the other, in any memory, because those of several blocks do not fit on the chip; `most`: at
    the peak; `anywhere`: at the peak including on-chip memory.
    """

    kept: int
    most: int
    anywhere: int


class BlockCost(NamedTuple):
    """Cost of one block, for one micro-batch on one device of its stage, in seconds, without recomputation.

    - `at_forward`, `at_backward`: bytes of the forward and backward task;
    - `sent_*`: collective payload of the forward task, and of both tasks; likewise `outgoing_*`: bytes leaving the
      device, and `flops_*`: FLOP of the dots;
    - `once`: additional seconds of the first micro-batch;
    - `shareable`: largest savings of forward and backward seconds for replicas that share parameters and gradients.
    """

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
        """Bytes on one device of these indices of the residuals."""
        read = dict(self.at_backward.read)
        return sum(read.get(f"kept/{place}", 0) for place in places)


def estimate_block(block: BlockTasks, stage: StageContext) -> BlockCost:
    """Estimate a block.

    Its backward pass is the actual task, which reads the residuals and accumulates every gradient: in the dot if the
    back end has dots that add to an array, else in a pass over gradient and sum, whose cost per micro-batch is
    independent of the number of samples.
    """
    forward, backward_task = estimate_tasks(block, stage)
    forward_seconds, backward_seconds = _estimate_seconds(block, stage, forward, backward_task)
    weight_seconds = backward_seconds * block.weight_share
    sent_forward, sent_backward = (tuple(payload_by_axis_and_kind(task.collectives).items()) for task in (forward, backward_task))
    outgoing = [sum(collective.total_sent for collective in task.collectives) for task in (forward, backward_task)]
    return BlockCost(
        block.stage.virtual_stage.blocks[0],
        forward_seconds,
        backward_seconds - weight_seconds,
        weight_seconds,
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
    """Estimate a block's passes as one program: bytes at the start of the backward pass, and at the peak."""
    both = _estimate_alone(block.both_program(stage.parts), stage)
    curve = both.over_step.curve()
    roles = [counts for role, counts in curve.by_role.items() if role not in (*ARGUMENT_ROLES, Role.OUTPUT)]
    alive = [sum(counts_at_op) for counts_at_op in zip(*roles, strict=True)] or [0] * len(curve.paths)
    backward_start = next((i for i, path in enumerate(curve.paths) if path.startswith("grad/")), 0)
    anywhere = [sum(counts_at_op) for counts_at_op in zip(alive, both.over_step.on_chip(), strict=True)]
    kept = min(anywhere[max(backward_start - 1, 0) : backward_start + 1], default=0)
    peak = max(alive, default=0)
    return TogetherBytes(kept, peak, max(peak, both.over_step.bytes_anywhere))


def estimate_tasks(block: BlockTasks, stage: StageContext) -> tuple[Estimate, Estimate]:
    """Estimate the forward and the backward task of a block as executed."""
    backward_program = block.backward_program(stage.parts, recompute=False, add_separately=stage.adds_separately)
    return _estimate_alone(block.forward_program, stage), _estimate_alone(backward_program, stage)


def task_bytes(program: Program, stage: StageContext) -> TaskBytes:
    """Bytes of a task's program on the devices of a stage."""
    return _count_task_bytes(_estimate_alone(program, stage))


def _count_task_bytes(found: Estimate) -> TaskBytes:
    hardware = found.hardware
    tile = hardware.chip.array_tile if hardware else ()
    sizes = [(argument.tensor, tiled_bytes(argument.local_shape, argument.tensor.dtype, tile)) for argument in found.arguments]
    read = tuple((tensor.path, size) for tensor, size in sizes if tensor.role is Role.INPUT)
    state_bytes = sum(size for tensor, size in sizes if tensor.role is not Role.INPUT)
    sums = {group: sum(size for path, size in read if path.startswith(f"{group}/")) for group in ("arriving", "pending")}
    staying = sum(size for _, size in read) - sum(sums.values())
    made = found.memory.by_role.get(Role.OUTPUT, 0)
    working = found.memory.peak - state_bytes - sum(size for _, size in read) - made
    anywhere = max(working, found.over_step.bytes_anywhere)
    return TaskBytes(staying, sums["arriving"], sums["pending"], made, working, read, anywhere)


def _estimate_seconds(block: BlockTasks, stage: StageContext, forward: Estimate, backward: Estimate) -> tuple[float, float]:
    """Return forward and backward seconds.

    Without hardware: seconds per `NOMINAL` operations or, if there are none, bytes of traffic; backward is both passes
    as one program less the forward pass.
    """
    if forward.step_time is not None and backward.step_time is not None:
        return forward.step_time.total, backward.step_time.total
    both = _estimate_alone(block.both_program(stage.parts), stage)
    counts = [estimate.flops.per_device for estimate in (forward, both)]
    forward_count, both_count = counts if any(counts) else (forward.traffic, both.traffic)
    return forward_count / NOMINAL, max(both_count - forward_count, 0) / NOMINAL


def _estimate_alone(program: Program, stage: StageContext) -> Estimate:
    layout, planned = _propagate_task(program, stage.anywhere)
    stage_plan = stage.plan
    plan = Plan(program, stage_plan.mesh, layout, hardware=stage_plan.hardware, axis_assignment=stage_plan.axis_assignment)
    return estimate_propagated(plan, planned, stage.mesh)


@cache_with_program(300)
def _propagate_task(program: Program, stage: StageContext) -> tuple[Layout, Propagated]:
    """Return the layout of a task and Shardy's answer, shared by stages over other links."""
    plan = plan_task(program, stage)
    return plan.layout, partition(plan, plan.hardware)


def place_results(program: Program, stage: StageContext) -> PlacedPaths:
    """Return Shardy's shardings of a task's results by path, each dimension with its propagation round."""
    return _place_results(program, stage.anywhere)


@cache_with_program(20)
def _place_results(program: Program, stage: StageContext) -> PlacedPaths:
    plan = plan_task(program, stage)
    rounds = sorted(
        {0, *(priority for _, sharding in (*plan.layout.overrides, *plan.layout.constraints) for priority in sharding.priorities)}
    )
    dims_by_round = [read_result_dims(_until_round(plan, last)) for last in rounds[:-1]]
    result = []
    for number, (tensor, dims) in enumerate(zip(program.results, read_result_dims(plan), strict=True)):
        round_indices = (
            next((k for k, results in enumerate(dims_by_round) if results[number][i] == axes), -1) for i, axes in enumerate(dims)
        )
        priorities = tuple(rounds[k] if axes else 0 for k, axes in zip(round_indices, dims, strict=True))
        result.append((tensor.path, Sharding(dims, priorities=priorities)))
    return tuple(result)


def _until_round(plan: Plan, last: int) -> Plan:
    def until(statements: Sequence[tuple[str, Sharding]]) -> tuple[tuple[str, Sharding], ...]:
        return tuple((pattern, sharding.until_round(last)) for pattern, sharding in statements)

    layout = plan.layout
    return plan.updated(layout=layout.updated(overrides=until(layout.overrides), constraints=until(layout.constraints)))


def plan_task(program: Program, stage: StageContext) -> Plan:
    """Plan a block's program: parameters and batch as in the whole plan, other inputs as they enter the block."""
    plan, layout, entering = stage.plan, stage.layout, dict(stage.entering)
    by_path = {arg.path: (arg, spec) for arg, spec in zip(plan.program.arguments, plan.argument_shardings, strict=True)}
    overrides = []
    for tensor in program.arguments:
        if tensor.role in (Role.PARAMETER, Role.GRADIENT):
            path = tensor.path.removeprefix(f"{TOTAL}/")
            param, sharding = by_path.get(path) or by_path[path.rpartition("/")[0]]
            leading = (stage.parts.axes,) if len(tensor.shape) > len(param.shape) else ()
            dims = [dim or () for dim in sharding.dims]
            param_dims = dims if param.shape == tensor.shape[len(leading) :] else [(), *dims[1:]]
            rounds = [sharding.priority(i) if axes else 0 for i, axes in enumerate(param_dims)]
            overrides.append((f"/{tensor.path}", Sharding((*leading, *param_dims), priorities=(*(0 for _ in leading), *rounds))))
        else:
            at_rest = by_path[tensor.path][1] if tensor.path in by_path else entering.get("/".join(tensor.path.split("/")[:2]))
            if at_rest and (sharding := _divide_value(tensor, at_rest, plan)).axes:
                overrides.append((f"/{tensor.path}", sharding))
    alone = Plan(program, plan.mesh, Layout((), tuple(overrides)), hardware=plan.hardware, axis_assignment=plan.axis_assignment)
    constraints = _list_constraints(alone.program, layout.constraints)
    return alone.updated(layout=alone.layout.updated(constraints=constraints)) if constraints else alone


def _list_constraints(program: Program, constraints: Sequence[tuple[str, Sharding]]) -> tuple[tuple[str, Sharding], ...]:
    """Return the whole plan's constraints that values of a block can have, by their paths in the block."""
    paths = dict.fromkeys(operation.path for operation in program.operations) if constraints else {}
    in_block = ((path, sharding) for pattern, sharding in constraints for path in _patterns_in_block(pattern, paths))
    return tuple((path, sharding) for path, sharding in in_block if not any(constraint_errors(program, path, sharding)))


def _patterns_in_block(pattern: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Translate a pattern to a block: `layers/mlp/add` in a loop over layers is `layers/3/mlp/add` in a block."""
    if any(matches(pattern, path) for path in paths):
        return (pattern,)
    return tuple(f"/{path}" for path in paths if (unnumbered := _NUMBER.sub("", path)) != path and matches(pattern, unnumbered))


def _divide_value(tensor: Tensor, at_rest: Sharding, plan: Plan) -> Sharding:
    """Return an activation's sharding, without axes that do not divide the dimension or split an earlier one."""
    dims: list[tuple[str, ...]] = []
    for axes, size in zip((dim or () for dim in at_rest.dims), tensor.shape, strict=True):
        is_taken = any(axes_overlap(axis, other) for axis in axes for used in dims for other in used)
        dims.append(() if is_taken or size % prod(axis_size(axis, plan.mesh) for axis in axes) else axes)
    return Sharding(tuple(dims), priorities=tuple(at_rest.priority(i) if axes else 0 for i, axes in enumerate(dims)))
