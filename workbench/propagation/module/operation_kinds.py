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
    """The operations of the program below `parent` in order, a loop before its body: the order of their ids."""
    for region in parent.regions:
        for block in region.blocks:
            for each in block.operations:
                yield each.operation
                if each.operation.name in CONTROL_FLOW:
                    yield from operations_below(each.operation)


def manual_axes(op: ir.Operation) -> tuple[str, ...]:
    """The mesh axes that are manual in the `shard_map`s around an operation, the outermost first."""
    found: tuple[str, ...] = ()
    parent = op.parent
    while parent is not None and parent.name != "func.func":
        if parent.name == "sdy.manual_computation":
            found = (*axes_made_manual(parent), *found)
        parent = parent.operation.parent
    return found


def axes_made_manual(region: ir.Operation) -> tuple[str, ...]:
    """The axes of one `sdy.manual_computation`."""
    return tuple(re.findall(r'"([^"]+)"', str(region.attributes["manual_axes"])))


def adds_updates(op: ir.Operation) -> bool:
    """Whether an operation is a scatter that adds its updates to the operand."""
    if op.name != "stablehlo.scatter" or len(op.results) > 1:
        return False
    return [each.operation.name for each in op.regions[0].blocks[0].operations] == ["stablehlo.add", "stablehlo.return"]
