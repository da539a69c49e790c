"""A step of a program in JAX's explicit mode, as a run calls it: inside `jit` over the plan's mesh, whose axes are the partitioner's.

There the types of values name mesh axes, and JAX checks them while it traces (`jax.sharding.explicit_axes`; JAX, "Explicit sharding").
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.sharding import AbstractMesh, PartitionSpec

from workbench.errors import EngineError
from workbench.plan.plan import Plan
from workbench.propagation import argument_placements
from workbench.tracing.constrain import partition_spec

Call = Callable[..., Any]


def step_calls(plan: Plan, mesh: jax.sharding.Mesh) -> tuple[Call, ...]:
    """The step as it is; of a program with explicit axes its forms, one of which JAX takes.

    Its arguments are typed as the plan lays them out, else as they were traced, which reshards them; the mesh is the abstract one of
    functions that come from another process, else that of these devices.
    """
    program = plan.program
    if not program.step.written.explicit:
        return (program.step.call,)
    planned = [partition_spec(each) for each in argument_placements(plan)]
    traced = [PartitionSpec() if each is None else partition_spec(each) for each in program.step.written.shardings]
    meshes = (AbstractMesh(mesh.axis_sizes, mesh.axis_names, mesh.axis_types), mesh.abstract_mesh)
    return tuple(_typed(program.step.call, over, program.step.written.explicit, specs) for specs in (planned, traced) for over in meshes)


def lower_first(lower: Callable[[Call], jax.stages.Lowered], plan: Plan, mesh: jax.sharding.Mesh) -> jax.stages.Lowered:
    """`lower(call)` of the first form of the step that JAX takes.

    Raises what the step raises where it has one form, `EngineError` with JAX's first words where it has explicit axes.
    """
    calls, refusals = step_calls(plan, mesh), list[Exception]()
    for call in calls:
        try:
            return lower(call)
        except Exception as error:  # JAX has no public name for the error of types that do not fit
            if len(calls) == 1:
                raise
            refusals.append(error)
    raise EngineError(
        f"`{plan.program.name}` computes over explicit mesh axes, whose types JAX checks, and does not take its arguments so: "
        f"{refusals[0]}",
        ['lay them out as they were traced, `layout="as written"`', "make the mesh with `axis_types=(jax.sharding.AxisType.Auto, ...)`"],
    ) from refusals[0]


def _typed(call: Callable[..., Any], mesh: AbstractMesh, axes: Sequence[str], specs: Sequence[PartitionSpec]) -> Callable[..., Any]:
    known = tuple(axis for axis in axes if axis in mesh.axis_names)
    types = tuple(PartitionSpec(*(_only(known, entry) for entry in spec)) for spec in specs)

    def typed(*arguments: Any) -> Any:
        with jax.sharding.use_abstract_mesh(mesh):
            return jax.sharding.explicit_axes(call, axes=known, in_sharding=types)(*arguments)

    return typed


def _only(axes: Sequence[str], entry: Any) -> Any:
    """The part of one dimension's entry that is over explicit axes."""
    names: Iterator[str] = (name for name in ((entry,) if isinstance(entry, str) else entry or ()) if name in axes)
    return tuple(names) or None
