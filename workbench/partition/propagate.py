"""Shardy in process: a plan's shardings onto the prepared module, propagated, and communication made explicit.

The passes are those of `sdy-propagation-pipeline` (what JAX runs before XLA) without the ones `prepare` has run and without closing
open dimensions, which no one reads; then explicit reshards and collectives. `sdy-convert-global-to-local` aborts the process and is not
among them; local shapes follow from the shardings.
"""

from collections.abc import Iterator

from jax.extend.mlir import ir

from workbench.errors import PartitionError
from workbench.mesh import Mesh
from workbench.partition.context import declare_mesh, main_function, run_passes
from workbench.partition.operations import operations_below
from workbench.partition.own_meshes import verify_own_axes
from workbench.partition.prepare import ID
from workbench.partition.program import prepared
from workbench.partition.structure import Structure
from workbench.paths import matches
from workbench.plan import Plan
from workbench.program import Program
from workbench.sharding import Sharding

_PASSES = (
    "sdy-apply-sharding-constraints",
    "sdy-sharding-group-import",
    "sdy-user-priority-propagate{keep-sharding-rules=true}",
    "sdy-propagate-to-func-results",
    "func.func(sdy-sink-data-flow-edges)",
    "sdy-remove-sharding-groups",
    "func.func(sdy-sharding-constraint-to-reshard)",
    "sdy-update-non-divisible-input-output-shardings",
    "sdy-remove-sub-axes-in-input-output-shardings",
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "func.func(sdy-reshard-to-collectives)",
    "canonicalize{enable-patterns={sdy-collective}}",
)


def propagate(plan: Plan) -> ir.Operation:
    """The plan's module with a sharding on every value and explicit collectives. Raises `PartitionError` with Shardy's words."""
    source, structure = prepared(plan.program)
    with source.context, ir.Location.unknown():
        verify_own_axes(source.operation, plan.mesh, is_manual="sdy.manual_computation" in structure.kinds)
        module = source.operation.clone()
        declare_mesh(module, ", ".join(f'"{name}"={size}' for name, size in plan.mesh.axes))
        main = main_function(module)
        _annotate(main, plan)
        _insert_constraints(main, plan)
        try:
            run_passes(module, ",".join(_passes(plan, structure)))
        except ir.MLIRError as error:
            first = next((line for line in str(error).splitlines() if "error" in line), str(error)[:200])
            raise PartitionError(
                f"Shardy refuses this plan: {first.strip()}", ["remove the last constraint", "report it: this is a bug"]
            ) from error
    return module


def _passes(plan: Plan, structure: Structure) -> tuple[str, ...]:
    """All passes, or those with anything to do: the rest walk the whole program to find nothing."""
    constrained = plan.layout.constraints or "sdy.sharding_constraint" in structure.kinds
    return _PASSES if constrained else tuple(each for each in _PASSES if "constraint" not in each)


def sharding_attribute(sharding: Sharding, mesh: Mesh, rank: int) -> ir.Attribute:
    """`#sdy.sharding`, without axes of size one, which split nothing."""
    dims = [_dim_text(dim, mesh) for dim in sharding.dims] + ["{}"] * (rank - len(sharding.dims))
    return ir.Attribute.parse(f"#sdy.sharding<@mesh, [{', '.join(dims)}]>")


def _dim_text(dim: tuple[str, ...] | None, mesh: Mesh) -> str:
    return "{?}" if dim is None else "{" + ", ".join(f'"{axis}"' for axis in dim if mesh[axis] > 1) + "}"


def _annotate(main: ir.Operation, plan: Plan) -> None:
    """The plan's shardings on arguments and results. A result that is carried to the next step lies as its argument does; the others are
    left to propagation."""
    shardings = plan.argument_shardings
    known: dict[tuple[Sharding, int], ir.Attribute] = {}
    kind = ir.TypeAttr(main.attributes["function_type"]).value
    inputs, results = ([ir.RankedTensorType(each).rank for each in side] for side in (kind.inputs, kind.results))
    main.attributes["arg_attrs"] = _attributes(dict(enumerate(shardings)), inputs, plan.mesh, known)
    carried = {result: shardings[argument] for result, argument in plan.program.carried}
    main.attributes["res_attrs"] = _attributes(carried, results, plan.mesh, known)


def _attributes(
    shardings: dict[int, Sharding], ranks: list[int], mesh: Mesh, known: dict[tuple[Sharding, int], ir.Attribute]
) -> ir.ArrayAttr:
    """One dictionary an argument, alike ones made once."""
    nothing = ir.DictAttr.get({})
    found = []
    for i, rank in enumerate(ranks):
        if i not in shardings:
            found.append(nothing)
            continue
        key = (shardings[i], rank)
        if key not in known:
            known[key] = ir.DictAttr.get({"sdy.sharding": sharding_attribute(shardings[i], mesh, rank)})
        found.append(known[key])
    return ir.ArrayAttr.get(found)


def constrained_operations(program: Program, pattern: str, rank: int) -> frozenset[int]:
    """The ids of the operations whose values a constraint holds for."""
    return frozenset(i for i, op in enumerate(program.operations) if len(op.shape) == rank and matches(pattern, op.path))


def _insert_constraints(main: ir.Operation, plan: Plan) -> None:
    wanted = {
        index: sharding
        for pattern, sharding in plan.layout.constraints
        for index in _last_of_each(plan.program, constrained_operations(plan.program, pattern, len(sharding.dims)))
    }
    if not wanted:
        return
    for op in list(operations_below(main)):
        sharding = wanted.get(ir.IntegerAttr(op.attributes[ID]).value)
        if sharding is not None:
            _constrain(op, sharding_attribute(sharding, plan.mesh, len(sharding.dims)))


def _last_of_each(program: Program, ids: frozenset[int]) -> Iterator[int]:
    """A primitive may lower to several operations of one path; the value is what the last of a run of them makes."""
    for index in ids:
        if index + 1 not in ids or program.operations[index + 1].path != program.operations[index].path:
            yield index


def _constrain(op: ir.Operation, sharding: ir.Attribute) -> None:
    """Insert `sdy.sharding_constraint` behind the operation and let all other users read it."""
    value = op.results[0]
    place = ir.InsertionPoint(op)  # an operation outside any block cannot be moved
    constraint = ir.Operation.create("sdy.sharding_constraint", [value.type], [value], {"sharding": sharding}, loc=op.location, ip=place)
    constraint.move_after(op)
    value.replace_all_uses_except(constraint.result, constraint)
