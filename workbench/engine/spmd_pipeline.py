"""A pipelined plan as one program for all devices: the SPMD engine. The shifting buffer lies over the mesh axis of the stages, the other
axes of the mesh are the layout's; Shardy puts them together, on one host or on several.

What runs is a plan like any other, so the ordinary engine compiles and runs it: the same arguments, the step with its loss pipelined,
and the stacked weights of the layers over the stages at rest. Recomputation is of all micro-batches or of none: in a program that does the
same in every iteration the last one cannot be left out (`remat:except_last` is `always` here).
"""

from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from workbench.engine.wired import wired
from workbench.errors import PipelineError
from workbench.layout import Layout
from workbench.pipeline_spec import PipelineSpec
from workbench.plan import Plan
from workbench.sharding import Sharding
from workbench.tensor import Role
from workbench.tracing.spmd_loss import spmd_loss, stacked_leaves
from workbench.tracing.training import with_loss


def spmd_plan(plan: Plan, mesh: jax.sharding.Mesh | None = None) -> Plan:
    """The plan whose step is pipelined in step, over these devices or the attached ones; it has no pipeline any more.

    Raises `PipelineError` where its layers cannot be.
    """
    spec = plan.pipeline
    assert spec is not None, "asked of plans with a pipeline"
    if plan.program.step.training is None:
        raise PipelineError(f"`{plan.program.name}` is no training step with a loss.", ["make it with `wb.trace_training`"])
    program = with_loss(plan.program, spmd_loss(plan.program, spec, lambda tree: _held(tree, spec, mesh or wired(plan))))
    return plan.updated(program=program, layout=_at_rest(plan, spec), pipeline=None)


def _held(tree: Any, spec: PipelineSpec, mesh: jax.sharding.Mesh) -> Any:
    """Leaves [stages, ...] each on its stage's devices, as the rest of the layout and the compiler will."""
    if spec.stages == 1:
        return tree

    def held(leaf: Any) -> Any:
        others = [PartitionSpec.UNCONSTRAINED] * (leaf.ndim - 1)
        return jax.lax.with_sharding_constraint(leaf, NamedSharding(mesh, PartitionSpec(spec.axis, *others)))

    return jax.tree.map(held, tree)


def _at_rest(plan: Plan, spec: PipelineSpec) -> Layout:
    """The layout, with stacked weights and their optimiser state over the stages where the layers of a stage are neighbours."""
    layout = plan.layout
    if spec.chunks > 1:  # a stage's layers are not one slice: they are brought together in the step
        return layout
    parameters = [tensor for tensor in plan.program.arguments if tensor.role is Role.PARAMETER]
    stacked = {parameters[leaf].path.partition("/")[2] for leaf in stacked_leaves(plan.program, spec)}
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        tail = next((path for path in stacked if tensor.path.endswith(f"/{path}")), None)
        like = tail is not None and tensor.role in (Role.PARAMETER, Role.OPTIMIZER_STATE) and tensor.shape
        if like and not sharding.dims[0]:
            layout = layout.with_override(f"/{tensor.path}", Sharding(((spec.axis,), *(dim or () for dim in sharding.dims[1:]))))
    return layout
