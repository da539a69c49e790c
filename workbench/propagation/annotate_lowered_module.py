"""Writes a plan's statements into a module as JAX lowered it, for JAX's compilers and for XLA's partitioner.

JAX cannot express priorities, open arguments, explicit replication or barriers, but XLA runs the same partitioner and
reads them from the module. So the module of `jit(...).lower()` gets the planner's statements: what is planned is
compiled.
"""

from collections.abc import Iterable
from itertools import count

import jax
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import sdy, stablehlo

from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.path_patterns import selects, stated_trip_count
from workbench.errors import PartitionError
from workbench.plan.plan import Plan
from workbench.propagation.argument_shardings import argument_placements
from workbench.propagation.carried_results import close_arguments, pin_carried_results
from workbench.propagation.module.function_calls import (
    CALL,
    functions_of,
    number_operations_and_calls,
    operations_called,
    scope_in_call,
    separate_calls,
    set_separate_call_stacks,
)
from workbench.propagation.module.hlo_form import hide_chlo, restore_chlo
from workbench.propagation.module.insert_statements import annotate_main, insert_after, insert_statements
from workbench.propagation.module.mlir_context import declare_mesh, int64, main_function, module_bytes, parse_module, run_passes
from workbench.propagation.module.operation_kinds import CONTROL_FLOW, gathers_for_print, operations_below
from workbench.propagation.module.prepare_module import inline_calls
from workbench.propagation.module.source_location import TURNS, scope_of
from workbench.propagation.module.source_meshes import verify_source_axes
from workbench.propagation.prepared_program import place_of
from workbench.propagation.propagate import refusal_error

OPERATION, CALLED = "wb", "wc"  # prefixes of the names of operations, and of calls, for XLA's partitioner

_SHARDING = "sdy.sharding"
_TO_HOST = 2  # the type of a channel
_FIRST_CHANNEL = 1 << 20  # of transfers to the host, above those of a program's own collectives
_NUMBER = "wb.number"  # an attribute of operations, while passes run
_PROPAGATION = (
    "sdy-constant-or-scalar-splitter,sdy-add-data-flow-edges,sdy-apply-sharding-constraints,sdy-sharding-group-import,"
    "sdy-user-priority-propagate,func.func(sdy-sink-data-flow-edges),sdy-close-shardings"
)
_DROPS_PRIORITIES = (0, 11, 2)
"""From this version on, XLA passes shardings to its partitioner as named HLO shardings (`xla_enable_hlo_sharding_v3`),
which keep open dimensions but drop priorities. A layout with priorities is therefore propagated here; older
compilers propagate it themselves.
"""

_Place = tuple[str, str, int]  # path, source, rank; -1 for no tensor


def write_layout(module: ir.Module, plan: Plan) -> None:
    """Write the plan's layout into a lowered module of this plan alone, in place (`jit` caches what it lowered).

    Raises `PartitionError` if the function was traced over another mesh.
    """
    with module.context, ir.Location.unknown():
        _verify_mesh(module, plan.mesh)
        _prepare_calls(module, plan.layout)
        _write_statements(module, plan)


def module_of(plan: Plan, *, compiles: bool = False) -> bytes:
    """Build the MLIR bytecode for XLA's partitioner: the program with the plan's mesh, layout and numbered operations.

    The numbers identify operations in compiler output (`spmd.locate_xla_collectives.operations_named`). An operation is
    named `wb<number>` and a call `wc<number>` (`calls.number_operations_and_calls`); XLA prefixes the names of
    operations with those of their calls. The numbers of such a name add up to the operation's position in the traced
    program (`program_structure.Op.position`).

    With `compiles`, the module is for a compiler that continues to kernels and memory: the state is donated to the
    results, and each operation also has its scope and source lines (`wb<number>/jit(step)/mlp/dot_general`).

    Reads only `lowered`, `carried` and the tensors of the program. Raises `PartitionError` with Shardy's message.
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
            _send_prints_to_host(_numbered_operations(module))
        for op in _numbered_operations(module):
            name = f"{CALLED if op.name == CALL else OPERATION}{ir.IntegerAttr(op.attributes[_NUMBER]).value}"
            del op.attributes[_NUMBER]
            op.location = _prefix_location(op, name) if compiles else ir.Location.name(name + _turns_in(op))
    return module_bytes(module)


def _write_numbers(module: ir.Module) -> bool:
    """Number the operations by attribute, as Shardy's passes invalidate handles; returns whether a region is manual."""
    is_manual = False
    for op, number in number_operations_and_calls(module.operation):
        is_manual |= op.name == "sdy.manual_computation"
        op.attributes[_NUMBER] = int64(number)
    return is_manual


def _numbered_operations(module: ir.Module) -> list[ir.Operation]:
    operations = (op for function in functions_of(module.operation).values() for op in operations_below(function))
    return [op for op in operations if _NUMBER in op.attributes]


def _prepare_calls(module: ir.Module, layout: Layout) -> None:
    """Separate calls, as statements are about one call's operations; inline them if priorities are propagated here."""
    if _propagates_here(layout):
        inline_calls(module.operation)
    elif _has_places(layout):
        separate_calls(module.operation)
        set_separate_call_stacks(module.operation)


def _donate(main: ir.Operation, carried: Iterable[tuple[int, int]]) -> None:
    """Donate carried arguments, as with `jit(..., donate_argnums=...)`."""
    arg_attrs = [{item.name: item.attr for item in ir.DictAttr(entry)} for entry in ir.ArrayAttr(main.attributes["arg_attrs"])]
    for result, argument in carried:
        arg_attrs[argument]["tf.aliasing_output"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), result)
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(item) for item in arg_attrs])


def _send_prints_to_host(operations: Iterable[ir.Operation]) -> None:
    """Replace the handler calls of prints by transfers to the host, in place, as JAX lowers them for a TPU
    (`jax._src.callback.send_to_host`): XLA:TPU has no handler of a CPU."""
    channels = count(_FIRST_CHANNEL)
    for op in operations:
        if gathers_for_print(op):
            with ir.InsertionPoint(op), op.location:
                _send_operands(op, channels)
            op.erase()


def _send_operands(op: ir.Operation, channels: Iterable[int]) -> None:
    token = stablehlo.create_token()
    for operand, channel in zip(op.operands, channels, strict=False):
        handle = stablehlo.ChannelHandle.get(channel, _TO_HOST)
        sent = stablehlo.SendOp([operand], token, handle, is_host_transfer=ir.BoolAttr.get(True))
        names = {"_xla_host_transfer_handler_name": "pjrt_rendezvous", "_xla_host_transfer_rendezvous": str(channel)}
        sent.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get({name: ir.StringAttr.get(text) for name, text in names.items()})
        if _SHARDING in op.attributes:
            sent.attributes[_SHARDING] = op.attributes[_SHARDING]
        token = sent.result


def _prefix_location(op: ir.Operation, name: str) -> ir.Location:
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
    if not all(sharding.is_closed for sharding in plan.argument_shardings):
        placements = argument_placements(plan)
        close_arguments(main, plan, placements)
        pin_carried_results(main, plan, placements)
    if _propagates_here(plan.layout):
        _propagate_here(module)


def _propagate_here(module: ir.Module) -> None:
    """Constrain each value to its propagated sharding, as XLA reads shardings only from constraints.

    Loops are left to the compiler, which adds operands for captured values and shards carried ones from outside.
    """
    main = main_function(module.operation)
    hide_chlo(main)
    run_passes(module.operation, _PROPAGATION)
    restore_chlo(main)
    for op in list(operations_below(main)):
        if _SHARDING not in op.attributes:
            continue
        if op.name not in (*CONTROL_FLOW, "sdy.sharding_constraint"):
            for value, sharding in zip(op.results, sdy.TensorShardingPerValueAttr(op.attributes[_SHARDING]).shardings, strict=True):
                insert_after("sdy.sharding_constraint", value, {"sharding": sharding})
        del op.attributes[_SHARDING]


def _name_turns(called: Iterable[tuple[ir.Operation, str]], places: Iterable[_Place], layout: Layout) -> None:
    """Append a loop's stated trip count to its name, which XLA keeps."""
    for (op, _), (path, source, _) in zip(called, places, strict=True):
        if op.name == "stablehlo.while" and (count := stated_trip_count(layout.turns, path, source)):
            lines = op.location.child_loc if isinstance(op.location, ir.NameLoc) else None
            op.location = ir.Location.name(f"{scope_of(op.location) or 'while'}/{TURNS}{count}", lines)


def _turns_in(op: ir.Operation) -> str:
    _, turns, count = scope_of(op.location).rpartition(f"/{TURNS}") if op.name == "stablehlo.while" else ("", "", "")
    return turns + count


def _has_places(layout: Layout) -> bool:
    return bool(layout.constraints or layout.groups or layout.barriers or layout.turns)


def _propagates_here(layout: Layout) -> bool:
    has_some = bool(layout.priorities) or any(sharding.priorities for _, sharding in (*layout.overrides, *layout.constraints))
    return has_some and jax.__version_info__ >= _DROPS_PRIORITIES


def _find_operations(places: list[_Place], pattern: str, rank: int | None) -> Iterable[int]:
    """The counterpart of `selectors.operations_at` for the operations of a lowered module."""
    selected = {
        i
        for i, (path, source, value_rank) in enumerate(places)
        if value_rank >= 0 and rank in (None, value_rank) and selects(pattern, path, source)
    }
    return (i for i in sorted(selected) if not (i + 1 in selected and places[i + 1][0] == places[i][0]))


def _verify_mesh(module: ir.Module, mesh: Mesh) -> None:
    declared = {
        ir.StringAttr(op.operation.attributes["sym_name"]).value: str(op.operation.attributes["mesh"])
        for op in module.operation.regions[0].blocks[0].operations
        if op.operation.name == "sdy.mesh"
    }
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh.axes)
    if f"<[{axes}]" not in declared.get("mesh", ""):
        raise PartitionError(
            f"The lowered function has no mesh {mesh}, so this plan's statements cannot be written into it.",
            ["trace the function without a mesh of its own"],
        )
