"""A pipelined plan as one SPMD program: the shifting buffer is sharded over the mesh axis of the stages, the other mesh axes are the
layout's; Shardy puts them together.

What runs is a plan like any other, so it is planned, compiled and run like any other: with the same arguments, the loss of the step
pipelined, and the layers' stacked weights sharded over the stages. Recomputation is of all micro-batches or of none: a program that does
the same in every iteration cannot leave out the last one (`remat:except_last` is `always` here).
"""

from typing import Any

from workbench.core.layout import Layout
from workbench.core.path_patterns import find_parameter
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.errors import LayoutError, PipelineError
from workbench.pipeline.staged_program import spec_of
from workbench.plan.plan import Plan
from workbench.tracing.spmd_pipeline.spmd_loss import find_layers, find_stacked_leaves
from workbench.tracing.spmd_pipeline.trace_spmd_step import trace_spmd_step, with_spmd_step


def as_spmd_program(plan: Plan, mesh: Any = None) -> Plan:
    """The plan whose step runs the pipeline as one program; it has no pipeline any more. With a `mesh` of devices it is to be run, and its
    program is planned as it was; without one it is traced anew, to be planned.

    Raises `PipelineError` where its layers cannot be pipelined so, or are laid out apart: they are stacked, and have one layout; and where
    the layout constrains a value that the shifting buffer does not have, or has with more dimensions.
    """
    spec = spec_of(plan)
    if plan.program.step.training is None:
        raise PipelineError(f"`{plan.program.name}` is no training step with a loss.", ["make it with `wb.trace_training`"])
    _verify_alike(plan, spec)
    program = trace_spmd_step(plan.program, spec, plan.mesh) if mesh is None else with_spmd_step(plan.program, spec, mesh)
    try:
        return plan.updated(program=program, layout=_place_stacked_weights(plan, spec), pipeline=None)
    except LayoutError as error:
        message = f"Engine `spmd` runs another program, the shifting buffer, which the layout does not fit. {error.message}"
        raise PipelineError(message, ["take engine:mpmd", "take back the constraints of values"]) from error


def _verify_alike(plan: Plan, spec: PipelineSpec) -> None:
    """Raises `PipelineError` where two of the equal layers have a parameter of one place with different shardings."""
    run = find_layers(plan.program, spec)
    slices = run.partition.network.flat.param_slices
    placed = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    parameters = [each for each in placed if each[0].role is Role.PARAMETER]
    for first, *others in zip(*run.param_slices, strict=True):
        tensor, sharding = parameters[slices[first][0].leaf]
        for other, other_sharding in (parameters[slices[number][0].leaf] for number in others):
            if other_sharding.dims != sharding.dims:
                raise PipelineError(
                    f"Engine `spmd` runs equal layers in step, one layout for all; `{tensor.path}` is {sharding} and `{other.path}` is "
                    f"{other_sharding}.",
                    ["take engine:mpmd, whose stages may differ", "lay them out alike"],
                )


def _place_stacked_weights(plan: Plan, spec: PipelineSpec) -> Layout:
    """The layout with stacked weights and their optimiser state sharded over the stages, where the layers of a stage are neighbours."""
    layout = plan.layout
    if spec.chunks > 1:  # a stage's layers are not one slice: they are gathered in the step
        return layout
    parameters = [tensor for tensor in plan.program.arguments if tensor.role is Role.PARAMETER]
    names = [each.path.partition("/")[2] for each in parameters]
    stacked = {names[leaf] for leaf in find_stacked_leaves(plan.program, spec)}
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        is_like = tensor.shape and tensor.role in (Role.PARAMETER, Role.OPTIMIZER_STATE) and find_parameter(tensor.path, names) in stacked
        if is_like and not sharding.dims[0]:
            layout = layout.with_override(f"/{tensor.path}", Sharding(((spec.axis,), *(dim or () for dim in sharding.dims[1:]))))
    return layout
