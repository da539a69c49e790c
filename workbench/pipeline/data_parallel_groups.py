"""How the devices of one stage share a micro-batch, from the plan's sharding of the batch."""

from math import prod

from workbench.core.micro_batches import batch_dim
from workbench.core.sharding import axis_size, base_axis
from workbench.core.tensor import Role
from workbench.pipeline.staged_program import StagedProgram
from workbench.plan.plan import Plan
from workbench.tracing.grad_accumulation.gradient_partial_sums import NO_GROUPS, DataParallelGroups


def find_data_parallel_groups(staged: StagedProgram) -> DataParallelGroups:
    """The data-parallel groups of a stage; none where all is one SPMD program, whose compiler decides when gradients are summed."""
    plan = staged.plan
    axes = find_whole_axes(plan)
    if staged.spec.engine == "spmd" or not axes:
        return NO_GROUPS
    parameters = [i for i, each in enumerate(plan.program.arguments) if each.role is Role.PARAMETER]
    split = [bool({base_axis(axis) for axis in plan.argument_shardings[i].axes} & set(axes)) for i in parameters]
    whole = (number for number, (param_slice, _) in enumerate(staged.network.flat.param_slices) if not split[param_slice.leaf])
    return DataParallelGroups(axes, prod(plan.mesh[axis] for axis in axes), frozenset(whole))


def count_batch_shards(plan: Plan) -> int:
    """The number of devices of a stage over which a micro-batch is sharded."""
    return prod(axis_size(axis, plan.mesh) for axis in find_batch_axes(plan))


def find_batch_axes(plan: Plan) -> tuple[str, ...]:
    """The mesh axes, or sub-axes, that split the batch: where its leaves are split differently, those of the leaf split most."""
    return max(_list_leaf_axes(plan), key=lambda axes: prod(axis_size(axis, plan.mesh) for axis in axes), default=())


def find_whole_axes(plan: Plan) -> tuple[str, ...]:
    """The mesh axes that split the batch, if all its leaves are split alike and by whole axes; else none."""
    found = {*_list_leaf_axes(plan)}
    axes = found.pop() if len(found) == 1 else ()
    return axes if all(axis in plan.mesh.names for axis in axes) else ()


def _list_leaf_axes(plan: Plan) -> list[tuple[str, ...]]:
    """The axes that split the batch dimension, for each leaf of the batch that has it."""
    inputs = plan.program.inputs
    name = batch_dim([plan.program.arguments[i] for i in inputs], plan.program.name)
    dims = ((plan.program.arguments[i].dims, plan.argument_shardings[i].dims) for i in inputs)
    return [dict(zip(names, places, strict=True))[name] or () for names, places in dims if name in names]
