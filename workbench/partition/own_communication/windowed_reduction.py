"""Windowed reductions: pooling, and the running sums of `cumsum` and its kin, whose window is as long as the dimension.

A pooling exchanges borders; a running sum reaches too far for that, and its operand is gathered along the dimension
(`HandleReduceWindow`; openxla/xla, `spmd_partitioner.cc`).
"""

from jax.extend.mlir import ir

from workbench.partition.own_communication.placed import Answer, Operator, Placed, numbers, paddings
from workbench.partition.own_communication.windows import Window, windowed

Windows = tuple[Window, ...]


def windows_of(op: ir.Operation) -> Windows | None:
    sizes = numbers(op, "window_dimensions")
    rank = len(sizes)
    columns = (
        sizes,
        numbers(op, "window_strides", 1, rank),
        paddings(op, "padding", rank),
        numbers(op, "window_dilations", 1, rank),
        numbers(op, "base_dilations", 1, rank),
    )
    found = tuple(
        Window(size, stride, low, high, dilation, base) for size, stride, (low, high), dilation, base in zip(*columns, strict=True)
    )
    return None if all(each.is_trivial for each in found) else found


def sends(facts: Windows, placed: Placed) -> Answer | None:
    inputs = range(len(placed.results))  # each result has an operand and, behind them all, a start
    answers = [windowed(facts, placed, operand) for operand in inputs]
    is_whole = any(each.makes_whole for each in answers)
    sent, beside = tuple(sent for each in answers for sent in each.sends), sum(each.beside for each in answers)
    return Answer(sent, replaces=is_whole, makes_whole=is_whole, beside=beside)


WINDOWED_REDUCTION = Operator("windowed reduction", ("stablehlo.reduce_window",), windows_of, sends)
