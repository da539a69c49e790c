"""A plan with a pipeline, and its program traced for one micro-batch."""

from dataclasses import dataclass
from math import prod
from typing import Any

from workbench.core.layout import Layout
from workbench.core.path_patterns import find_parameter
from workbench.core.pipeline_spec import PipelineSpec, batch_dim
from workbench.core.sharding import Sharding, axis_size, base_axis
from workbench.core.tensor import Role
from workbench.errors import LayoutError, PipelineError
from workbench.plan.plan import Plan
from workbench.tracing.grad_accumulation.gradient_partial_sums import NO_GROUPS, DataParallelGroups
from workbench.tracing.spmd_pipeline.spmd_loss import find_layers, find_stacked_leaves, trace_spmd_step, with_spmd_step
from workbench.tracing.stage_partition.trace_network import Network, network_of


@dataclass(frozen=True, slots=True)
class StagedProgram:
    """Input to planning, estimating and compiling stages; created by `staged_program`.

    - `spec`: the plan's pipeline;
    - `network`: the program's loss for one of `spec.micro_batches`, in blocks that a boundary may separate.
    """

    plan: Plan
    spec: PipelineSpec
    network: Network


def staged_program(plan: Plan) -> StagedProgram:
    """Trace the staged program of a plan.

    Raises `PipelineError` without a pipeline or training step, or if the micro-batches do not divide the batch;
    `TraceError` if JAX cannot trace the loss of a micro-batch.
    """
    spec = spec_of(plan)
    return StagedProgram(plan, spec, network_of(plan.program, spec.micro_batches))


def spec_of(plan: Plan) -> PipelineSpec:
    """Return the plan's pipeline; raises `PipelineError` if it has none."""
    if plan.pipeline is None:
        raise PipelineError(f"{plan.name} has no pipeline.", ['set pipeline="stages:4 micro_batches:8"'])
    return plan.pipeline


# How the devices of a stage share a micro-batch, from the plan's sharding of the batch.


def find_data_parallel_groups(staged: StagedProgram) -> DataParallelGroups:
    """Return a stage's data-parallel groups; none in a single SPMD program, which sums gradients itself."""
    plan = staged.plan
    axes = find_whole_axes(plan)
    if staged.spec.engine == "spmd" or not axes:
        return NO_GROUPS
    parameters = [i for i, argument in enumerate(plan.program.arguments) if argument.role is Role.PARAMETER]
    split = [bool({base_axis(axis) for axis in plan.argument_shardings[i].axes} & set(axes)) for i in parameters]
    whole = (number for number, (param_slice, _) in enumerate(staged.network.flat.param_slices) if not split[param_slice.leaf])
    return DataParallelGroups(axes, prod(plan.mesh[axis] for axis in axes), frozenset(whole))


def count_batch_shards(plan: Plan) -> int:
    """Number of devices of a stage over which a micro-batch is sharded."""
    return prod(axis_size(axis, plan.mesh) for axis in find_batch_axes(plan))


def find_batch_axes(plan: Plan) -> tuple[str, ...]:
    """Return the mesh axes or sub-axes that split the batch; of the most-split leaf if leaves differ."""
    return max(_list_leaf_axes(plan), key=lambda axes: prod(axis_size(axis, plan.mesh) for axis in axes), default=())


def find_whole_axes(plan: Plan) -> tuple[str, ...]:
    """Return the mesh axes that split the batch, if all its leaves are split equally and by whole axes; else none."""
    leaf_axes = {*_list_leaf_axes(plan)}
    axes = leaf_axes.pop() if len(leaf_axes) == 1 else ()
    return axes if all(axis in plan.mesh.names for axis in axes) else ()


def _list_leaf_axes(plan: Plan) -> list[tuple[str, ...]]:
    inputs = plan.program.inputs
    name = batch_dim([plan.program.arguments[i] for i in inputs], plan.program.name)
    dims = ((plan.program.arguments[i].dims, plan.argument_shardings[i].dims) for i in inputs)
    return [dict(zip(names, places, strict=True))[name] or () for names, places in dims if name in names]


# A pipelined plan as one SPMD program: the shifting buffer is sharded over the stage axis of the mesh, the other axes are the
# layout's; Shardy combines them.
#
# The result is an ordinary plan, and is planned, compiled and run as such: with the same arguments, the loss of the step
# pipelined, and the layers' stacked weights sharded over the stages. Recomputation is for all micro-batches or none: a program with
# identical iterations cannot skip the last one (`remat:except_last` is `always` here).


def as_spmd_program(plan: Plan, mesh: Any = None) -> Plan:
    """Return a plan without a pipeline whose step runs the pipeline as one program.

    With a `mesh` of devices the plan is to be run and keeps its planned program; otherwise its program is traced again
    for planning.

    Raises `PipelineError` if the layers cannot be pipelined so or have different layouts, as they are stacked and share
    one; also if the layout constrains a value that the shifting buffer lacks, or has with more dimensions.
    """
    spec = spec_of(plan)
    if plan.program.step.training is None:
        raise PipelineError(f"`{plan.program.name}` is not a training step with a loss.", ["make it with `wb.trace_training`"])
    _verify_alike(plan, spec)
    program = trace_spmd_step(plan.program, spec, plan.mesh) if mesh is None else with_spmd_step(plan.program, spec, mesh)
    try:
        return plan.updated(program=program, layout=_place_stacked_weights(plan, spec), pipeline=None)
    except LayoutError as error:
        message = f"Engine `spmd` runs a shifting buffer, which does not fit the layout. {error.message}"
        raise PipelineError(message, ["use engine:mpmd", "remove the constraints of values"]) from error


def _verify_alike(plan: Plan, spec: PipelineSpec) -> None:
    run = find_layers(plan.program, spec)
    slices = run.partition.network.flat.param_slices
    shardings = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    parameters = [entry for entry in shardings if entry[0].role is Role.PARAMETER]
    for first, *others in zip(*run.param_slices, strict=True):
        tensor, sharding = parameters[slices[first][0].leaf]
        for other, other_sharding in (parameters[slices[number][0].leaf] for number in others):
            if other_sharding.dims != sharding.dims:
                raise PipelineError(
                    f"Engine `spmd` runs equal layers in lockstep with one layout; `{tensor.path}` is {sharding} and `{other.path}` is "
                    f"{other_sharding}.",
                    ["use engine:mpmd, which supports different stages", "use one layout for all"],
                )


def _place_stacked_weights(plan: Plan, spec: PipelineSpec) -> Layout:
    layout = plan.layout
    if spec.chunks > 1:  # a stage's layers are not one slice, so they are gathered in the step
        return layout
    parameters = [tensor for tensor in plan.program.arguments if tensor.role is Role.PARAMETER]
    names = [parameter.path.partition("/")[2] for parameter in parameters]
    stacked = {names[leaf] for leaf in find_stacked_leaves(plan.program, spec)}
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        is_like = tensor.shape and tensor.role in (Role.PARAMETER, Role.OPTIMIZER_STATE) and find_parameter(tensor.path, names) in stacked
        if is_like and not sharding.dims[0]:
            layout = layout.with_override(f"/{tensor.path}", Sharding(((spec.axis,), *(dim or () for dim in sharding.dims[1:]))))
    return layout
