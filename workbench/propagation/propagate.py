"""Runs Shardy in this process: writes a plan's shardings on the prepared module, propagates them and makes collectives
explicit.

The passes are those of `sdy-propagation-pipeline` (run by JAX before XLA) without those that `prepare` ran and without
closing open dimensions, which nothing reads; then explicit reshards and collectives. `sdy-convert-global-to-local`
aborts the process and is left out; local shapes follow from the shardings.
"""

from jax.extend.mlir import ir

from workbench.errors import PartitionError
from workbench.plan.plan import Plan
from workbench.plan.sharding_legality import sharding_faults
from workbench.propagation.carried_results import reshard_carried_results
from workbench.propagation.insert_dot_reshards import insert_dot_reshards
from workbench.propagation.module.insert_statements import annotate_main, barriers_to_reshards, insert_constraints, result_shardings
from workbench.propagation.module.mlir_context import declare_mesh, main_function, run_passes
from workbench.propagation.module.operation_kinds import operations_below
from workbench.propagation.module.reshard_barriers import (
    clear_unreduced_results,
    drop_reshard_rules,
    insert_barriers,
    reshard_elementwise_operands,
)
from workbench.propagation.module.source_meshes import verify_source_axes
from workbench.propagation.prepared_program import load_prepared
from workbench.propagation.shortened_program import shorten_program
from workbench.propagation.structure.program_structure import Structure
from workbench.propagation.variadic_reductions import has_variadic_reduces, reduce_variadic
from workbench.propagation.xla_backends import NO_HARDWARE, Backend

_PROPAGATING = "sdy-user-priority-propagate{keep-sharding-rules=true}"
_EVEN_EDGES = "sdy-update-non-divisible-input-output-shardings"
_PASSES = (
    "sdy-apply-sharding-constraints",
    "sdy-sharding-group-import",
    _PROPAGATING,
    "sdy-propagate-to-func-results",
    "func.func(sdy-sink-data-flow-edges)",
    "sdy-remove-sharding-groups",
    "func.func(sdy-sharding-constraint-to-reshard)",
    _EVEN_EDGES,
    "sdy-remove-sub-axes-in-input-output-shardings",
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "func.func(sdy-reshard-to-collectives)",
    "canonicalize{enable-patterns={sdy-collective}}",
)

_INSERT_RESHARDS = "func.func(sdy-insert-explicit-reshards{enable-full-version=true})"
_TO_COLLECTIVES = "func.func(sdy-reshard-to-collectives)"


def propagate(plan: Plan, backend: Backend = NO_HARDWARE) -> ir.Operation:
    """The plan's module with all shardings and explicit collectives. Raises `PartitionError` with Shardy's message."""
    source, structure = load_prepared(plan.program)
    with source.context, ir.Location.unknown():
        verify_source_axes(source.operation, plan.mesh, is_manual="sdy.manual_computation" in structure.kinds)
        passes = list(_select_passes(plan, structure))
        try:
            if (module := _propagate_layers(plan, passes, backend)) is not None:
                _make_explicit(module, passes[passes.index(_INSERT_RESHARDS) :], structure)
                return module
            module = _annotate_copy(source.operation, plan)
            insert_constraints(main_function(module), plan)
            _run_passes(module, passes, plan, structure, backend)
        except ir.MLIRError as error:
            raise refusal_error(str(error)) from error
    return module


def propagate_to_results(plan: Plan) -> ir.Operation:
    """The plan's module with its results' shardings; skips explicit collectives, most of `propagate`'s time.

    Raises `PartitionError` with Shardy's message.
    """
    module, structure = annotated_module(plan), load_prepared(plan.program).structure
    passes = _select_passes(plan, structure)
    with module.context, ir.Location.unknown():
        try:
            run_passes(module, ",".join(passes[: passes.index(_INSERT_RESHARDS)]))
        except ir.MLIRError as error:
            raise refusal_error(str(error)) from error
        if _has_constraints_or_barriers(plan, structure):
            clear_unreduced_results(main_function(module), result_shardings(plan))
        reshard_carried_results(main_function(module), plan)
    return module


def annotated_module(plan: Plan) -> ir.Operation:
    """The plan's module with its statements before propagation. Raises `PartitionError` with Shardy's message."""
    source, structure = load_prepared(plan.program)
    with source.context, ir.Location.unknown():
        verify_source_axes(source.operation, plan.mesh, is_manual="sdy.manual_computation" in structure.kinds)
        try:
            module = _annotate_copy(source.operation, plan)
            insert_constraints(main_function(module), plan)
        except ir.MLIRError as error:
            raise refusal_error(str(error)) from error
    return module


def propagating_passes(plan: Plan) -> tuple[str, ...]:
    """The passes that give every value of a plan's module its sharding."""
    passes = _select_passes(plan, load_prepared(plan.program).structure)
    return passes[: passes.index(_PROPAGATING) + 1]


def refusal_error(words: str) -> PartitionError:
    """The error with Shardy's message, without the IR printed after it."""
    first = next((line for line in words.splitlines() if "error" in line), words[:200])
    ways_out = ["remove the last constraint", "if this plan should work, report it to openxla/shardy: the message is from Shardy"]
    return PartitionError(f"Shardy refuses this plan: {first.strip()}", ways_out, words)


def _annotate_copy(source: ir.Operation, plan: Plan) -> ir.Operation:
    module = source.clone()
    declare_mesh(module, ", ".join(f'"{name}"={size}' for name, size in plan.mesh.axes))
    annotate_main(main_function(module), plan)
    return module


def _propagate_layers(plan: Plan, passes: list[str], backend: Backend) -> ir.Operation | None:
    """The module before reshards, propagated without its middle layers; `None` if layers are treated differently."""
    if _INSERT_RESHARDS not in passes or (short := shorten_program(plan.program)) is None or not short.is_valid_for(plan):
        return None
    few = _annotate_copy(short.few, plan)
    run_passes(few, ",".join(passes[: passes.index(_INSERT_RESHARDS)]))
    whole = short.whole.clone()
    declare_mesh(whole, ", ".join(f'"{name}"={size}' for name, size in plan.mesh.axes))
    main = main_function(whole)
    if (ops := short.transfer_shardings(main, main_function(few))) is None:
        return None
    reshard_carried_results(main, plan)
    insert_dot_reshards(main, ops, load_prepared(plan.program).structure, plan.mesh, backend)
    return whole


def _run_passes(module: ir.Operation, passes: list[str], plan: Plan, structure: Structure, backend: Backend) -> None:
    """Run the passes, with stops before reshards are inserted and before they become collectives (`_make_explicit`)."""
    is_constrained, has_statements = any("constraint" in name for name in passes), _has_constraints_or_barriers(plan, structure)
    inserting = passes.index(_INSERT_RESHARDS)
    run_passes(module, ",".join(passes[:inserting]))
    main = main_function(module)
    if has_statements:
        barriers_to_reshards(main)
    ops = list(operations_below(main))
    if is_constrained:
        drop_reshard_rules(ops)
    if has_statements:
        reshard_elementwise_operands(ops)
        clear_unreduced_results(main, result_shardings(plan))
    reshard_carried_results(main, plan)
    insert_dot_reshards(main, ops, structure, plan.mesh, backend)
    _make_explicit(module, passes[inserting:], structure, has_statements=has_statements)


def _make_explicit(module: ir.Operation, passes: list[str], structure: Structure, *, has_statements: bool = False) -> None:
    """Insert reshards and lower them to collectives, with a stop between the two if anything is to do there."""
    is_variadic = has_variadic_reduces(structure)
    if not (is_variadic or has_statements):
        run_passes(module, ",".join(passes))
        return
    lowering = passes.index(_TO_COLLECTIVES)
    run_passes(module, ",".join(passes[:lowering]))
    if is_variadic:
        reduce_variadic(main_function(module))
    if has_statements:
        insert_barriers(main_function(module))
    run_passes(module, ",".join(passes[lowering:]))


def _has_constraints_or_barriers(plan: Plan, structure: Structure) -> bool:
    """Return whether the plan or the function constrains a value; open constraints before loops do not count."""
    return bool(plan.layout.constraints or plan.layout.barriers) or structure.has_constraints


def _select_passes(plan: Plan, structure: Structure) -> tuple[str, ...]:
    """The passes with any effect: the others would walk the whole program to find nothing."""
    constrained = plan.layout.constraints or plan.layout.barriers or "sdy.sharding_constraint" in structure.kinds
    passes = _PASSES if constrained else tuple(name for name in _PASSES if "constraint" not in name)
    return tuple(name for name in passes if name != _EVEN_EDGES) if plan.pads_shards and _has_uneven_arguments(plan) else passes


def _has_uneven_arguments(plan: Plan) -> bool:
    pairs = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    return any(any(sharding_faults(tensor.shape, sharding.dims, plan.mesh)) for tensor, sharding in pairs)
