"""From lowered StableHLO to a module ready for edits: everything that no layout changes is done here, once a trace.

    lowered module --> calls inlined --> constants set apart --> broadcasts of constants dropped --> rules populated --> operations numbered

The result propagates exactly as the program does, in half the operations.
"""

from jax.extend.mlir import ir

from workbench.partition.context import main_function, producer, run_passes
from workbench.partition.inline import inline_calls

ID = "wb_id"
# Operations whose regions are part of the program; other regions (a reduce's, a sort's) hold scalar arithmetic.
CONTROL_FLOW = ("stablehlo.while", "stablehlo.case", "stablehlo.if", "sdy.manual_computation")
ELEMENTWISE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs add and atan2 cbrt ceil clamp compare complex convert cosine divide erf exponential exponential_minus_one floor imag "
        "is_finite log log_plus_one logistic maximum minimum multiply negate not or popcnt power real remainder round_nearest_afz "
        "round_nearest_even rsqrt select shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor"
    ).split()
) | frozenset(f"chlo.{name}" for name in "acos acosh asin asinh atan atanh bessel_i1e cosh erf erf_inv erfc lgamma digamma sinh square tan".split())


def prepare(module: ir.Module) -> None:
    """Make the lowered module ready, in place."""
    with module.context, ir.Location.unknown():
        inline_calls(module.operation)
        run_passes(module.operation, "sdy-constant-or-scalar-splitter")
        _drop_constant_broadcasts(main_function(module.operation))
        run_passes(module.operation, "sdy-add-data-flow-edges,func.func(sdy-populate-op-sharding-rules)")
        _number(main_function(module.operation), 0)


def _drop_constant_broadcasts(parent: ir.Operation) -> None:
    """Let an elementwise operation read its other operand where it read a broadcast constant.

    A constant's broadcast lies as its one user does and is never sent, so propagation loses nothing; in a training step it is a third of
    all operations.
    """
    for region in parent.regions:
        for block in region.blocks:
            for each in list(block.operations):
                op = each.operation
                if op.name in ELEMENTWISE and len(op.operands) > 1:
                    _read_the_other_operand(op)
                elif op.name in CONTROL_FLOW:
                    _drop_constant_broadcasts(op)
    for region in parent.regions:
        for block in region.blocks:
            _erase_unused(block)


def _read_the_other_operand(op: ir.Operation) -> None:
    operands = list(op.operands)
    constant = [_is_constant_broadcast(value) for value in operands]
    for i, value in enumerate(operands):
        if constant[i]:
            like = next((other for k, other in enumerate(operands) if not constant[k] and other.type == value.type), None)
            # A compare may have only a value of another type beside it; then the shape alone has to agree.
            if like is None and op.name != "stablehlo.select":
                like = next((other for k, other in enumerate(operands) if not constant[k] and _shape(other) == _shape(value)), None)
            if like is not None:
                op.operands[i] = like


def _shape(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _is_constant_broadcast(value: ir.Value) -> bool:
    owner = producer(value)
    if owner is None or owner.name != "stablehlo.broadcast_in_dim":
        return False
    source = producer(owner.operands[0])
    return source is not None and source.name in ("stablehlo.constant", "sdy.constant")


def _erase_unused(block: ir.Block) -> None:
    for each in reversed(list(block.operations)):
        op = each.operation
        if op.name in ("stablehlo.broadcast_in_dim", "stablehlo.constant", "sdy.constant") and not any(any(result.uses) for result in op.results):
            op.erase()


def _number(parent: ir.Operation, next_id: int) -> int:
    """Give each operation of the program its id, in program order."""
    integer = ir.IntegerType.get_signless(32)
    for region in parent.regions:
        for block in region.blocks:
            for each in block.operations:
                op = each.operation
                op.attributes[ID] = ir.IntegerAttr.get(integer, next_id)
                next_id += 1
                if op.name in CONTROL_FLOW:
                    next_id = _number(op, next_id)
    return next_id
