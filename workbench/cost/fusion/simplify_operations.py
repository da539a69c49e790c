"""XLA:TPU's simplification of a program's operations before fusion, as far as it changes kernels."""

import math
from dataclasses import replace

from workbench.propagation.module.operation_kinds import DOTS
from workbench.propagation.structure.program_structure import Op, Structure
from workbench.propagation.structure.stored_values import DYNAMIC_SLICE, VIEWING

_SELECT, _REDUCE, _MULTIPLY, _RESHAPE = "stablehlo.select", "stablehlo.reduce", "stablehlo.multiply", "stablehlo.reshape"
_DOT, _CONVOLUTION, _REVERSE = "stablehlo.dot_general", "stablehlo.convolution", "stablehlo.reverse"
_BROADCAST = "stablehlo.broadcast_in_dim"


def simplify_operations(structure: Structure) -> list[Op]:
    """The operations by id, some of another kind:

    - a scatter that picks one element of each row selects;
    - a dot of vectors, or of a matrix and a vector, becomes an elementwise product and a sum
      (`AlgebraicSimplifier::HandleDotStrengthReduction`), its larger operand first; one that sums over nothing, a product. libtpu 0.0.42.1
      does so for TPU v5e, and estimates 207,598 cycles for bfloat16[1, 4096] x [4096, 3584], where two rows stay on the matrix units and
      take 11,444;
    - a reversal that only convolutions read is dropped: they read their kernels backwards.
    """
    others = {operand for op in structure.ops if op.kind != _CONVOLUTION for operand in op.operands}
    return [_simplify_operation(structure, op, others) for op in structure.ops]


def repeated_slices(structure: Structure) -> set[int]:
    """Slices at a place that is counted whose elements are read again and again: what repeats them, or multiplies, reads each for many."""
    slices = {op.results[0] for op in structure.ops if op.kind == DYNAMIC_SLICE}
    read = {operand for op in structure.ops if op.kind in (_BROADCAST, _DOT) for operand in op.operands[:2]}
    for op in reversed(structure.ops):
        if op.kind in VIEWING and op.kind != DYNAMIC_SLICE and read & set(op.results):
            read.update(op.operands[:1])
    return slices & read


def _simplify_operation(structure: Structure, op: Op, others: set[int]) -> Op:
    """`others` are the values that something else than a convolution reads."""
    if op.lowers_to_select:
        return replace(op, kind=_SELECT)
    if op.kind == _REVERSE and not others & set(op.results):
        return replace(op, kind=_RESHAPE)
    return _strength_reduce_dot(structure, op) if op.kind == _DOT and not op.custom_kernel else op


def _strength_reduce_dot(structure: Structure, op: Op) -> Op:
    left, right, result = (math.prod(structure.values[value].shape) for value in (*op.operands[:2], op.results[0]))
    summed = math.prod(structure.values[op.operands[0]].shape[dim] for dim in op.work.contracted)
    if summed == 1:
        return replace(op, kind=_MULTIPLY)
    if result * summed != max(left, right):
        return op
    return replace(op, kind=_REDUCE, operands=op.operands if left >= right else op.operands[::-1])


# Values that are stored in two bytes although the program computes them in four: those that only dots of default precision read, which
# round them to bfloat16 themselves. XLA:TPU rounds them where they are made (`float_type_correction_info` in its modules).


NARROW, _WIDE = "bfloat16", "float32"
_MOVING = VIEWING | {"stablehlo.slice", "stablehlo.pad", "stablehlo.concatenate", "stablehlo.reverse"}
"""Operations that compute nothing: what they make may be as narrow as what reads it."""


def narrowed_values(structure: Structure) -> frozenset[int]:
    """The ids of these values; arguments of main and of loops keep their type."""
    read = [0] * len(structure.values)
    rounded = [0] * len(structure.values)
    found: set[int] = set()
    for op in reversed(structure.ops):
        found.update(each for each in op.results if read[each] and read[each] == rounded[each] and structure.values[each].dtype == _WIDE)
        is_dot = op.kind in DOTS and not op.keeps_operand_precision and not op.custom_kernel
        rounds = is_dot or (op.kind in _MOVING and all(each in found for each in op.results))
        for operand in op.operands:
            read[operand] += 1
            rounded[operand] += rounds
    return frozenset(found)
