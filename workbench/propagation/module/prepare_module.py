"""From lowered StableHLO to a module ready for edits: all work that no layout changes is done here, once per trace.

The steps:
    lowered module  ->  meshes merged, calls inlined  ->  the form XLA's partitioner sees  ->  loop invariants captured
                    ->  constants set apart  ->  irrelevant operations dropped  ->  rules populated  ->  operations numbered

The result propagates as the program does in XLA, with half the operations.
"""

from jax.extend.mlir import ir

from workbench.propagation.module.function_calls import CALL, CALLER, callee_of, functions_of, scope_in_call, set_call_stack
from workbench.propagation.module.hlo_form import to_hlo_form
from workbench.propagation.module.loops import capture_invariants
from workbench.propagation.module.mlir_context import main_function, number_operations, producer, read_dims, run_passes
from workbench.propagation.module.operation_kinds import CONSTANTS, CONTROL_FLOW, ELEMENTWISE, operations_below
from workbench.propagation.module.source_location import readable_path, scope_of
from workbench.propagation.module.source_meshes import drop_single_devices
from workbench.propagation.module.varying_axes import mark_varying_axes

ID = "wb_id"
SKIPS_LINKS = "wb_skips_links"
"""Marks an optimizer operation whose operand replaces a dropped elementwise chain, and so differs from what other
readers of that operand need.
"""


def prepare(module: ir.Module) -> None:
    """Prepare a module with one mesh for edits, in place."""
    with module.context, ir.Location.unknown():
        drop_single_devices(module.operation)
        inline_calls(module.operation)
        to_hlo_form(main_function(module.operation))
        capture_invariants(main_function(module.operation))
        mark_varying_axes(module.operation)
        run_passes(module.operation, "sdy-constant-or-scalar-splitter")
        prune(main_function(module.operation))
        run_passes(module.operation, "sdy-add-data-flow-edges,func.func(sdy-populate-op-sharding-rules)")
        _state_ragged_dot_rules(main_function(module.operation))
        number_operations(main_function(module.operation), ID)


# Pruning: operations that do not affect sharding are dropped, once per trace, so that every edit propagates over half the operations.
#
# Three things can be dropped without changing any sharding or collective:
#
# - a scalar's broadcast that an elementwise operation reads beside a whole tensor: it gets its one reader's sharding and is never
#   sent;
# - all but one of several equal scalar constants, which have no dimension to shard;
# - in the optimizer, links of an elementwise chain with one reader and one whole operand of the same type: a reshard before or after such
#   a
#   link moves the same bytes. (Elsewhere they stay, for they may be constrained by name.)


def prune(main: ir.Operation) -> None:
    """Drop operations that do not affect sharding, in place; in loops and branches too."""
    _share_scalar_constants(main)
    scalars: dict[ir.Value, bool] = {}
    for block in _blocks(main):
        for item in list(block.operations):
            op = item.operation
            if op.name in ELEMENTWISE and len(op.operands) > 1:
                _drop_scalar_broadcasts(op, scalars)
            if op.name in ELEMENTWISE and _in_the_optimizer(op):
                _skip_elementwise_links(op)
    for block in _blocks(main):
        _erase_unused(block)


def _blocks(parent: ir.Operation) -> list[ir.Block]:
    blocks = []
    for region in parent.regions:
        for block in region.blocks:
            blocks.append(block)
            for item in block.operations:
                if item.operation.name in CONTROL_FLOW:
                    blocks += _blocks(item.operation)
    return blocks


def _share_scalar_constants(main: ir.Operation) -> None:
    for block in _blocks(main):
        constants: dict[ir.Attribute, ir.Value] = {}
        for item in list(block.operations):
            op = item.operation
            if op.name in CONSTANTS and not _shape(op.results[0]) and not isinstance(_element(op.results[0]), ir.ComplexType):
                first = constants.setdefault(op.attributes["value"], op.results[0])
                if first != op.results[0]:
                    op.results[0].replace_all_uses_with(first)
                    op.erase()


def _element(value: ir.Value) -> ir.Type:
    """The element type of a tensor. (jaxlib cannot read attributes of complex numbers.)"""
    return ir.RankedTensorType(value.type).element_type


def _drop_scalar_broadcasts(op: ir.Operation, scalars: dict[ir.Value, bool]) -> None:
    operands = list(op.operands)
    is_broadcast = [_is_scalar_broadcast(value, scalars) for value in operands]
    whole = [value for value, is_scalar in zip(operands, is_broadcast, strict=True) if not is_scalar]
    for i, value in enumerate(operands):
        if is_broadcast[i]:
            # The same type if there is one; a comparison's other operand may differ in type, and its shape is all that sharding looks at.
            same_shape = [other for other in whole if _shape(other) == _shape(value)] if op.name == "stablehlo.compare" else []
            substitutes = [other for other in whole if other.type == value.type] or same_shape
            if substitutes:
                op.operands[i] = substitutes[0]


def _skip_elementwise_links(op: ir.Operation) -> None:
    for i, value in enumerate(op.operands):
        source = value
        while (link := producer(source)) is not None and _has_one_tensor_operand(link, source):
            source = link.operands[0]
        if source != value and source.type == value.type:
            op.operands[i] = source
            op.attributes[SKIPS_LINKS] = ir.UnitAttr.get()


def _has_one_tensor_operand(link: ir.Operation, result: ir.Value) -> bool:
    if link.name not in ELEMENTWISE or link.operands[0].type != result.type or any(other != link.operands[0] for other in link.operands):
        return False
    return len({use.owner for use in result.uses}) == 1 and _in_the_optimizer(link)


def _in_the_optimizer(op: ir.Operation) -> bool:
    """Return whether an operation is in the scope that `trace_training` puts around the optimizer's update."""
    return readable_path(scope_of(op.location)).startswith("optimizer/")


def _shape(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape) if isinstance(value.type, ir.RankedTensorType) else []


def _is_scalar_broadcast(value: ir.Value, scalars: dict[ir.Value, bool]) -> bool:
    owner = producer(value)
    return owner is not None and owner.name == "stablehlo.broadcast_in_dim" and _is_computed_from_scalars(owner.operands[0], scalars)


def _is_computed_from_scalars(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    """Return whether a scalar is computed from scalars alone, so that dropping a reader drops no communication."""
    pending = [value]  # a stack, not recursion: the norm of all gradients is a chain as long as the list of tensors
    while pending:
        current = pending[-1]
        owner = None if _shape(current) else producer(current)
        operands = [] if owner is None else list(owner.operands)
        if current in known:
            pending.pop()
        elif _shape(current) or (owner is not None and len(owner.regions)) or not all(known.get(operand, True) for operand in operands):
            known[current] = False
        elif (unknown := next((operand for operand in operands if operand not in known), None)) is not None:
            pending.append(unknown)
        else:
            known[current] = True
    return known[value]


def _erase_unused(block: ir.Block) -> None:
    erasable = ELEMENTWISE | {"stablehlo.broadcast_in_dim", *CONSTANTS}
    for item in reversed(list(block.operations)):
        op = item.operation
        if op.name in erasable and not any(any(result.uses) for result in op.results):
            op.erase()


# Calls are replaced by the bodies they call, so that a program is one function with loops: what the planner propagates over.
#
# Done once, so that no edit pays for it, and every operation has one position and one named scope. (MLIR's `inline` pass has no inliner
# for `func` in jaxlib and leaves the calls.)


def inline_calls(module: ir.Operation) -> None:
    """Inline every `func.call` reachable from main, in place, and drop the other functions."""
    functions = functions_of(module)
    _inline_region(main_function(module), functions)
    for name, function in functions.items():
        if name != "main":
            function.erase()


def _inline_region(parent: ir.Operation, functions: dict[str, ir.Operation]) -> None:
    for region in parent.regions:
        for block in region.blocks:
            pending = [op.operation for op in block.operations]
            pending.reverse()
            while pending:
                op = pending.pop()
                if op.name == CALL:
                    callee = functions[callee_of(op)]
                    pending.extend(reversed(_expand_call(op, callee)))
                elif len(op.regions):
                    _inline_region(op, functions)


def _expand_call(call: ir.Operation, callee: ir.Operation) -> list[ir.Operation]:
    scope = ir.StringAttr.get(scope_in_call(call))
    block = callee.regions[0].blocks[0]
    values = dict(zip(block.arguments, call.operands, strict=True))
    clones = []
    for op in block.operations:
        source = op.operation
        if source.name == "func.return":
            for result, value in zip(call.results, source.operands, strict=True):
                result.replace_all_uses_with(values.get(value, value))
            continue
        clone = source.clone(ir.InsertionPoint(call))
        _rewire(clone, values)
        _tag_scope(clone, scope)
        set_call_stack((clone, *operations_below(clone)), callee, call)
        values.update(zip(source.results, clone.results, strict=True))
        clones.append(clone)
    call.erase()
    return clones


def _rewire(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    for i, operand in enumerate(op.operands):
        if operand in values:
            op.operands[i] = values[operand]
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _rewire(inner.operation, values)


def _tag_scope(op: ir.Operation, scope: ir.Attribute) -> None:
    """Put the call's scope on the clone and all operations inside it; nested calls get theirs when they are expanded."""
    op.attributes[CALLER] = scope
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                if CALLER not in inner.operation.attributes:
                    _tag_scope(inner.operation, scope)


# The sharding rules of ragged dots, for which Shardy has none. XLA splits neither the ragged dimension nor the groups: it gathers the
# operands along them, and each device keeps its part of the result.

_GROUP = "group"


def _state_ragged_dot_rules(main: ir.Operation) -> None:
    for op in operations_below(main):
        if op.name == "chlo.ragged_dot":
            op.attributes["sdy.sharding_rule"] = ir.Attribute.parse(_ragged_dot_rule(op))


def _ragged_dot_rule(op: ir.Operation) -> str:
    """The rule as text: no axis may shard the groups or the ragged dimension; other factors that the result lacks are summed."""
    tensors, ragged = _ragged_dot_factors(op)
    values = (*op.operands, op.results[0])
    sizes = {name: size for names, value in zip(tensors, values, strict=True) for name, size in zip(names, _shape(value), strict=True)}
    letters = dict(zip(sizes, "ijklmnopqrstuvwxyz", strict=False))
    written = [f"[{', '.join(letters[name] for name in names)}]" for names in tensors]
    whole = [letters[name] for name in sizes if name in (ragged, _GROUP)]
    summed = [letters[name] for name in tensors[0] if name not in (ragged, *tensors[-1])]
    kinds = "".join(f" {kind}={{{', '.join(names)}}}" for kind, names in (("reduction", summed), ("need_replication", whole)) if names)
    counts = ", ".join(f"{letters[name]}={size}" for name, size in sizes.items())
    return f"#sdy.op_sharding_rule<({', '.join(written[:-1])})->({written[-1]}) {{{counts}}}{kinds}>"


def _ragged_dot_factors(op: ir.Operation) -> tuple[list[list[str]], str]:
    """A name for each dimension of the operands and the result, equal where they are one dimension, and that of the ragged dimension."""
    text = str(op.attributes["ragged_dot_dimension_numbers"])
    batch, summed = ([read_dims(text, f"{side}_{name}_dimensions") for side in ("lhs", "rhs")] for name in ("batching", "contracting"))
    left, right, sizes = ([f"{side} {dim}" for dim in range(len(_shape(value)))] for side, value in zip("lrs", op.operands, strict=True))
    for dim in read_dims(text, "rhs_group_dimensions"):
        right[dim] = _GROUP
    for i, j in zip((*batch[0], *summed[0]), (*batch[1], *summed[1]), strict=True):
        right[j] = left[i]
    ragged, batches = left[read_dims(text, "lhs_ragged_dimensions")[0]], [left[dim] for dim in batch[0]]
    dropped = {_GROUP, *(left[dim] for dim in summed[0]), *batches}
    free = [name for name in (*left, *right) if name not in dropped]
    groups = [_GROUP] if ragged in dropped.difference(batches) else []
    return [left, right, [*sizes[:-1], _GROUP], [*groups, *batches, *free]], ragged
