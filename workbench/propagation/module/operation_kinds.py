"""Kinds of StableHLO operations, as far as the planner distinguishes them."""

import re
from collections.abc import Iterator

from jax.extend.mlir import ir

CONSTANTS = ("stablehlo.constant", "sdy.constant")
# Operations whose regions are part of the program; other regions (a reduce's, a sort's) hold scalar arithmetic.
CONTROL_FLOW = ("stablehlo.while", "stablehlo.case", "stablehlo.if", "sdy.manual_computation")
BRANCHING = ("stablehlo.case", "stablehlo.if")
DOTS = frozenset({"stablehlo.dot_general", "stablehlo.convolution"})
ELEMENTWISE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "abs",
        "add",
        "and",
        "atan2",
        "cbrt",
        "ceil",
        "clamp",
        "compare",
        "complex",
        "convert",
        "cosine",
        "divide",
        "erf",
        "exponential",
        "exponential_minus_one",
        "floor",
        "imag",
        "is_finite",
        "log",
        "log_plus_one",
        "logistic",
        "maximum",
        "minimum",
        "multiply",
        "negate",
        "not",
        "or",
        "popcnt",
        "power",
        "real",
        "reduce_precision",
        "remainder",
        "round_nearest_afz",
        "round_nearest_even",
        "rsqrt",
        "select",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "sign",
        "sine",
        "sqrt",
        "subtract",
        "tan",
        "tanh",
        "xor",
    )
)


def operations_below(parent: ir.Operation) -> Iterator[ir.Operation]:
    """The operations of the program below `parent` in the order of their ids, a loop before its body."""
    for region in parent.regions:
        for block in region.blocks:
            for item in block.operations:
                yield item.operation
                if item.operation.name in CONTROL_FLOW:
                    yield from operations_below(item.operation)


def manual_axes(op: ir.Operation) -> tuple[str, ...]:
    """The mesh axes that are manual in the `shard_map`s around an operation, the outermost first."""
    axes: tuple[str, ...] = ()
    parent = op.parent
    while parent is not None and parent.name != "func.func":
        if parent.name == "sdy.manual_computation":
            axes = (*axes_made_manual(parent), *axes)
        parent = parent.operation.parent
    return axes


def axes_made_manual(region: ir.Operation) -> tuple[str, ...]:
    """The manual axes of one `sdy.manual_computation`."""
    return tuple(re.findall(r'"([^"]+)"', str(region.attributes["manual_axes"])))


def adds_updates(op: ir.Operation) -> bool:
    """Return whether an operation is a scatter that adds its updates to the operand."""
    if op.name != "stablehlo.scatter" or len(op.results) > 1:
        return False
    return [item.operation.name for item in op.regions[0].blocks[0].operations] == ["stablehlo.add", "stablehlo.return"]


# Prints from the device (`jax.debug.print`). JAX lowers one as a call of a handler of the backend at hand, a CPU's.

_HANDLER, _HANDLER_OF_SHARDS = "xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback"


def is_print(op: ir.Operation) -> bool:
    """Whether the operation prints values from the device."""
    return op.name == "stablehlo.custom_call" and not len(op.results) and _handler(op) in (_HANDLER, _HANDLER_OF_SHARDS)


def gathers_for_print(op: ir.Operation) -> bool:
    """Whether the operation prints whole values, which one device gathers, and not each device its shards (`partitioned=True`)."""
    return is_print(op) and _handler(op) == _HANDLER


def _handler(op: ir.Operation) -> str:
    return str(ir.StringAttr(op.attributes["call_target_name"]).value)
