"""A plan's statements written into the module that JAX is about to compile.

JAX has no words for priorities, open arguments, explicit replication or barriers. The compiler has: XLA runs the same partitioner, and
reads them off the module. So the module that `jit(...).lower()` made is given what the planner gives its own: what is planned is compiled.
"""

from collections.abc import Iterable

from jax.extend.mlir import ir

from workbench.errors import PartitionError
from workbench.mesh import Mesh
from workbench.partition.context import main_function
from workbench.partition.inline import inline_calls
from workbench.partition.operations import operations_below
from workbench.partition.program import place_of
from workbench.partition.statements import annotate, insert_statements
from workbench.places import picks
from workbench.plan import Plan

_Place = tuple[str, str, int]  # path, source, rank; -1 for no tensor


def write_layout(module: ir.Module, plan: Plan) -> None:
    """Write the plan's layout into a lowered module, in place: it must be of this plan alone (`jit` keeps what it lowered).

    Raises `PartitionError` if the function was traced over another mesh.
    """
    with module.context, ir.Location.unknown():
        _verify_mesh(module, plan.mesh)
        inline_calls(module.operation)
        main = main_function(module.operation)
        annotate(main, plan, keep=True)
        ops = list(operations_below(main))
        places = [place_of(op) for op in ops] if plan.layout.constraints or plan.layout.groups or plan.layout.barriers else []
        insert_statements(main, ops, plan, lambda pattern, rank: _find(places, pattern, rank))


def _find(places: list[_Place], pattern: str, rank: int | None) -> Iterable[int]:
    """As `places.operations_at` finds them among a program's operations."""
    named = {i for i, (path, source, of) in enumerate(places) if of >= 0 and rank in (None, of) and picks(pattern, path, source)}
    return (i for i in sorted(named) if not (i + 1 in named and places[i + 1][0] == places[i][0]))


def _verify_mesh(module: ir.Module, mesh: Mesh) -> None:
    declared = {
        ir.StringAttr(each.operation.attributes["sym_name"]).value: str(each.operation.attributes["mesh"])
        for each in module.operation.regions[0].blocks[0].operations
        if each.operation.name == "sdy.mesh"
    }
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh.axes)
    if f"<[{axes}]" not in declared.get("mesh", ""):
        raise PartitionError(
            f"The lowered function has no mesh {mesh}, so this plan's statements cannot be written into it.",
            ["trace the function without a mesh of its own"],
        )
