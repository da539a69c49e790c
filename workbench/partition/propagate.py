"""Shardy in process: a plan's shardings onto the prepared module, propagated, and communication made explicit.

The passes are those of `sdy-propagation-pipeline` (what JAX runs before XLA) without the ones `prepare` has run, then explicit reshards and
collectives. `sdy-convert-global-to-local` aborts the process and is not among them; local shapes follow from the shardings.
"""

from collections.abc import Iterator

from jax.extend.mlir import ir

from workbench.errors import PartitionError
from workbench.mesh import Mesh
from workbench.partition.context import declare_mesh, main_function, run_passes
from workbench.partition.operations import CONTROL_FLOW
from workbench.partition.own_meshes import verify_own_axes
from workbench.partition.prepare import ID
from workbench.partition.program import prepared
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
    "sdy-close-shardings",
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "func.func(sdy-reshard-to-collectives)",
    "canonicalize{enable-patterns={sdy-collective}}",
)


def propagate(plan: Plan) -> ir.Operation:
    """The plan's module with a sharding on every value and explicit collectives. Raises `PartitionError` with Shardy's words."""
    source = prepared(plan.program).module
    with source.context, ir.Location.unknown():
        is_manual = any(operation.kind == "manual_computation" for operation in plan.program.operations)
        verify_own_axes(source.operation, plan.mesh, is_manual=is_manual)
        module = source.operation.clone()
        declare_mesh(module, ", ".join(f'"{name}"={size}' for name, size in plan.mesh.axes))
        main = main_function(module)
        _annotate_arguments(main, plan)
        _annotate_results(main, plan)
        _insert_constraints(main, plan)
        try:
            run_passes(module, ",".join(_PASSES))
        except ir.MLIRError as error:
            first = next((line for line in str(error).splitlines() if "error" in line), str(error)[:200])
            raise PartitionError(
                f"Shardy refuses this plan: {first.strip()}", ["remove the last constraint", "report it: this is a bug"]
            ) from error
    return module


def sharding_attribute(sharding: Sharding, mesh: Mesh, rank: int) -> ir.Attribute:
    """`#sdy.sharding`, without axes of size one, which split nothing."""
    dims = [_dim_text(dim, mesh) for dim in sharding.dims] + ["{}"] * (rank - len(sharding.dims))
    return ir.Attribute.parse(f"#sdy.sharding<@mesh, [{', '.join(dims)}]>")


def _dim_text(dim: tuple[str, ...] | None, mesh: Mesh) -> str:
    return "{?}" if dim is None else "{" + ", ".join(f'"{axis}"' for axis in dim if mesh[axis] > 1) + "}"


def _annotate_arguments(main: ir.Operation, plan: Plan) -> None:
    types = [argument.type for argument in main.regions[0].blocks[0].arguments]
    _annotate(main, "arg_attrs", types, dict(enumerate(plan.argument_shardings)), plan.mesh)


def _annotate_results(main: ir.Operation, plan: Plan) -> None:
    """A result that is carried to the next step lies as its argument does; the others are left to propagation."""
    types = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    shardings = plan.argument_shardings
    _annotate(main, "res_attrs", types, {result: shardings[argument] for result, argument in plan.program.carried}, plan.mesh)


def _annotate(main: ir.Operation, attribute: str, types: list[ir.Type], shardings: dict[int, Sharding], mesh: Mesh) -> None:
    old = ir.ArrayAttr(main.attributes[attribute]) if attribute in main.attributes else [ir.DictAttr.get({})] * len(types)
    known: dict[tuple[Sharding, int], ir.Attribute] = {}
    attributes = []
    for i, (kind, each) in enumerate(zip(types, old, strict=True)):
        entries = {entry.name: entry.attr for entry in ir.DictAttr(each)}
        if i in shardings:
            key = (shardings[i], ir.RankedTensorType(kind).rank)
            if key not in known:
                known[key] = sharding_attribute(key[0], mesh, key[1])
            entries["sdy.sharding"] = known[key]
        attributes.append(ir.DictAttr.get(entries))
    main.attributes[attribute] = ir.ArrayAttr.get(attributes)


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
    for op in list(_operations(main)):
        sharding = wanted.get(ir.IntegerAttr(op.attributes[ID]).value)
        if sharding is not None:
            _constrain(op, sharding_attribute(sharding, plan.mesh, len(sharding.dims)))


def _last_of_each(program: Program, ids: frozenset[int]) -> Iterator[int]:
    """A primitive may lower to several operations of one path; the value is what the last of a run of them makes."""
    for index in ids:
        if index + 1 not in ids or program.operations[index + 1].path != program.operations[index].path:
            yield index


def _operations(parent: ir.Operation) -> Iterator[ir.Operation]:
    for region in parent.regions:
        for block in region.blocks:
            for each in block.operations:
                yield each.operation
                if each.operation.name in CONTROL_FLOW:
                    yield from _operations(each.operation)


def _constrain(op: ir.Operation, sharding: ir.Attribute) -> None:
    """Insert `sdy.sharding_constraint` behind the operation and let all other users read it."""
    value = op.results[0]
    place = ir.InsertionPoint(op)  # an operation outside any block cannot be moved
    constraint = ir.Operation.create("sdy.sharding_constraint", [value.type], [value], {"sharding": sharding}, loc=op.location, ip=place)
    constraint.move_after(op)
    value.replace_all_uses_except(constraint.result, constraint)
