"""A plan's statements written into a module as JAX lowered it: into the one that JAX is about to compile, or the one that is given to XLA's
partitioner.

JAX cannot express priorities, open arguments, explicit replication or barriers. The compiler can: XLA runs the same partitioner, and
reads them from the module. So the module of `jit(...).lower()` gets the same statements as the planner's: what is planned is compiled.
"""

from collections.abc import Iterable

import jax
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import sdy

from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.path_patterns import selects, stated_turns
from workbench.errors import PartitionError
from workbench.plan.plan import Plan
from workbench.propagation.argument_shardings import argument_placements
from workbench.propagation.carried_results import close_arguments, pin_carried_results
from workbench.propagation.module.function_calls import (
    CALL,
    functions_of,
    number_operations_and_calls,
    operations_called,
    place_separate_calls,
    scope_in_call,
    separate_calls,
)
from workbench.propagation.module.insert_statements import annotate_main, insert_behind, insert_statements
from workbench.propagation.module.mlir_context import declare_mesh, int64, main_function, module_bytes, parse_module, run_passes
from workbench.propagation.module.operation_kinds import CONTROL_FLOW, operations_below
from workbench.propagation.module.prepare_module import inline_calls
from workbench.propagation.module.source_location import TURNS, scope_of
from workbench.propagation.module.source_meshes import verify_source_axes
from workbench.propagation.prepared_program import place_of
from workbench.propagation.propagate import refusal_error

OPERATION, CALLED = "wb", "wc"  # prefixes of the names of operations, and of calls, for XLA's partitioner

_SHARDING = "sdy.sharding"
_NUMBER = "wb.number"  # an attribute of operations, while passes run
_PROPAGATION = (
    "sdy-add-data-flow-edges,sdy-apply-sharding-constraints,sdy-sharding-group-import,sdy-user-priority-propagate,"
    "func.func(sdy-sink-data-flow-edges),sdy-close-shardings"
)
_DROPS_PRIORITIES = (0, 11, 2)
"""Since this version XLA passes shardings to its partitioner as HLO's named ones (`xla_enable_hlo_sharding_v3`), which keep open dimensions
and drop priorities: where a layout has some, propagation is run here. The compilers before know them, and are asked."""

_Place = tuple[str, str, int]  # path, source, rank; -1 for no tensor


def write_layout(module: ir.Module, plan: Plan) -> None:
    """Write the plan's layout into a lowered module, in place: it must be of this plan alone (`jit` keeps what it lowered).

    Raises `PartitionError` if the function was traced over another mesh.
    """
    with module.context, ir.Location.unknown():
        _verify_mesh(module, plan.mesh)
        _prepare_calls(module, plan.layout)
        _write_statements(module, plan)


def module_of(plan: Plan, *, compiles: bool = False) -> bytes:
    """The program as XLA's partitioner is given it, in MLIR's bytecode: with the plan's mesh and layout, and with names by which its
    operations can be recognised in whatever is made of it (`spmd.locate_xla_collectives.operations_named`).

    An operation is named `wb<number>` and a call `wc<number>` (`calls.number_operations_and_calls`); XLA puts the names of calls
    before those of what they call. The numbers of such a name add up to the operation's place in the program as traced
    (`program_structure.Op.position`).
    `compiles`: as a compiler is given it that goes on to kernels and memory: the state's memory is the results', and each operation has
    its scope and its lines, too (`wb<number>/jit(step)/mlp/dot_general`).
    Of the program, `lowered`, `carried` and the tensors are read, and nothing is called. Raises `PartitionError` with Shardy's words.
    """
    module = parse_module(plan.program.lowered)
    with module.context, ir.Location.unknown():
        _prepare_calls(module, plan.layout)
        is_manual = _write_numbers(module)
        verify_source_axes(module.operation, plan.mesh, is_manual=is_manual)
        declare_mesh(module.operation, ", ".join(f'"{name}"={size}' for name, size in plan.mesh.axes))
        try:
            _write_statements(module, plan)
        except ir.MLIRError as error:
            raise refusal_error(str(error)) from error
        if compiles:
            _donate(main_function(module.operation), plan.program.carried)
        for op in _numbered_operations(module):
            name = f"{CALLED if op.name == CALL else OPERATION}{ir.IntegerAttr(op.attributes[_NUMBER]).value}"
            del op.attributes[_NUMBER]
            op.location = _prefix_location(op, name) if compiles else ir.Location.name(name + _turns_in(op))
    return module_bytes(module)


def _write_numbers(module: ir.Module) -> bool:
    """Write each operation's number into an attribute; returns whether the program has a manual region.

    Shardy's passes erase some operations, so that no handle of one may be kept over them (a crash from JAX 0.11.2 on).
    """
    is_manual = False
    for op, number in number_operations_and_calls(module.operation):
        is_manual |= op.name == "sdy.manual_computation"
        op.attributes[_NUMBER] = int64(number)
    return is_manual


def _numbered_operations(module: ir.Module) -> list[ir.Operation]:
    found = (op for function in functions_of(module.operation).values() for op in operations_below(function))
    return [op for op in found if _NUMBER in op.attributes]


def _prepare_calls(module: ir.Module, layout: Layout) -> None:
    """Give each call a function of its own, as statements are about one call's operations; inline all for propagation by priorities."""
    if _propagates_here(layout):
        inline_calls(module.operation)
    elif _has_places(layout):
        separate_calls(module.operation)
        place_separate_calls(module.operation)


def _donate(main: ir.Operation, carried: Iterable[tuple[int, int]]) -> None:
    """Donate arguments: results that become arguments take over their memory, as with `jit(..., donate_argnums=...)`."""
    given = [{each.name: each.attr for each in ir.DictAttr(entry)} for entry in ir.ArrayAttr(main.attributes["arg_attrs"])]
    for result, argument in carried:
        given[argument]["tf.aliasing_output"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), result)
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in given])


def _prefix_location(op: ir.Operation, name: str) -> ir.Location:
    """The operation's own location, with this before its name."""
    scope = scope_in_call(op)
    lines = op.location.child_loc if isinstance(op.location, ir.NameLoc) else None
    return ir.Location.name(f"{name}/{scope}" if scope else name, lines)


def _write_statements(module: ir.Module, plan: Plan) -> None:
    main = main_function(module.operation)
    annotate_main(main, plan, keep=True)
    called = list(operations_called(module.operation)) if _has_places(plan.layout) else []
    places = [place_of(op, scope) for op, scope in called]
    _name_turns(called, places, plan.layout)
    insert_statements(main, [op for op, _ in called], plan, lambda pattern, rank: _find_operations(places, pattern, rank))
    if not all(each.is_closed for each in plan.argument_shardings):
        lies = argument_placements(plan)
        close_arguments(main, plan, lies)
        pin_carried_results(main, plan, lies)
    if _propagates_here(plan.layout):
        _propagate_here(module)


def _propagate_here(module: ir.Module) -> None:
    """Constrain each value to the sharding that propagation by priorities gives it: XLA reads no other sharding of an operation.

    Loops are left to the compiler, which first gives them more operands (what their bodies capture), and takes the shardings of carried
    values from around them.
    """
    run_passes(module.operation, _PROPAGATION)
    for op in list(operations_below(main_function(module.operation))):
        if _SHARDING not in op.attributes:
            continue
        if op.name not in (*CONTROL_FLOW, "sdy.sharding_constraint"):
            for value, sharding in zip(op.results, sdy.TensorShardingPerValueAttr(op.attributes[_SHARDING]).shardings, strict=True):
                insert_behind("sdy.sharding_constraint", value, {"sharding": sharding})
        del op.attributes[_SHARDING]


def _name_turns(called: Iterable[tuple[ir.Operation, str]], places: Iterable[_Place], layout: Layout) -> None:
    """Put how often a loop runs behind its name, which XLA keeps."""
    for (op, _), (path, source, _) in zip(called, places, strict=True):
        if op.name == "stablehlo.while" and (count := stated_turns(layout.turns, path, source)):
            lines = op.location.child_loc if isinstance(op.location, ir.NameLoc) else None
            op.location = ir.Location.name(f"{scope_of(op.location) or 'while'}/{TURNS}{count}", lines)


def _turns_in(op: ir.Operation) -> str:
    """What `_name_turns` put behind a loop's name, from the slash on."""
    _, turns, count = scope_of(op.location).rpartition(f"/{TURNS}") if op.name == "stablehlo.while" else ("", "", "")
    return turns + count


def _has_places(layout: Layout) -> bool:
    return bool(layout.constraints or layout.groups or layout.barriers or layout.turns)


def _propagates_here(layout: Layout) -> bool:
    has_some = bool(layout.priorities) or any(each.priorities for _, each in (*layout.overrides, *layout.constraints))
    return has_some and jax.__version_info__ >= _DROPS_PRIORITIES


def _find_operations(places: list[_Place], pattern: str, rank: int | None) -> Iterable[int]:
    """As `selectors.operations_at` finds them among a program's operations."""
    named = {i for i, (path, source, of) in enumerate(places) if of >= 0 and rank in (None, of) and selects(pattern, path, source)}
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
