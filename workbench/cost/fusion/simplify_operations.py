"""XLA:TPU's simplifications before fusion, as far as they change kernels."""

import math
from dataclasses import replace

from workbench.propagation.module.operation_kinds import DOTS
from workbench.propagation.structure.program_structure import Op, Structure
from workbench.propagation.structure.stored_values import DYNAMIC_SLICE, VIEWING

_SELECT, _REDUCE, _MULTIPLY, _RESHAPE = "stablehlo.select", "stablehlo.reduce", "stablehlo.multiply", "stablehlo.reshape"
_DOT, _CONVOLUTION, _REVERSE = "stablehlo.dot_general", "stablehlo.convolution", "stablehlo.reverse"
_BROADCAST = "stablehlo.broadcast_in_dim"


def simplify_operations(structure: Structure) -> list[Op]:
    """Return the operations by id, some simplified to another kind.

    - a scatter that picks one element per row becomes a select;
    - a dot of vectors, or of a matrix and a vector, becomes an elementwise product and a sum
      (`AlgebraicSimplifier::HandleDotStrengthReduction`), larger operand first; without contraction, a product. libtpu
      0.0.42.1 does so for TPU v5e, and estimates 207,598 cycles for bfloat16[1, 4096] x [4096, 3584], while two rows
      stay on the matrix units with 11,444;
    - a reversal read only by convolutions is dropped: they read their kernels backwards.
    """
    others = {operand for op in structure.ops if op.kind != _CONVOLUTION for operand in op.operands}
    return [_simplify_operation(structure, op, others) for op in structure.ops]


def repeated_slices(structure: Structure) -> set[int]:
    """Return dynamic slices whose elements are read repeatedly, by broadcasts or dots."""
    slices = {op.results[0] for op in structure.ops if op.kind == DYNAMIC_SLICE}
    read = {operand for op in structure.ops if op.kind in (_BROADCAST, _DOT) for operand in op.operands[:2]}
    for op in reversed(structure.ops):
        if op.kind in VIEWING and op.kind != DYNAMIC_SLICE and read & set(op.results):
            read.update(op.operands[:1])
    return slices & read


def _simplify_operation(structure: Structure, op: Op, others: set[int]) -> Op:
    """Simplify one operation; `others` are values with readers other than convolutions."""
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


# Float32 values stored as bfloat16 because only dots of default precision read them, which
# round them anyway. XLA:TPU rounds them where they are made (`float_type_correction_info` in its modules).


NARROW, _WIDE = "bfloat16", "float32"
_MOVING = VIEWING | {"stablehlo.slice", "stablehlo.pad", "stablehlo.concatenate", "stablehlo.reverse"}
"""Operations that only move data, so that their result may be as narrow as their reader needs."""


def narrowed_values(structure: Structure) -> frozenset[int]:
    """Return the values stored as bfloat16; arguments of main and of loops keep their type."""
    read = [0] * len(structure.values)
    rounded = [0] * len(structure.values)
    narrowed: set[int] = set()
    for op in reversed(structure.ops):
        narrowed.update(
            result for result in op.results if read[result] and read[result] == rounded[result] and structure.values[result].dtype == _WIDE
        )
        is_dot = op.kind in DOTS and not op.keeps_operand_precision and not op.custom_kernel
        rounds = is_dot or (op.kind in _MOVING and all(result in narrowed for result in op.results))
        for operand in op.operands:
            read[operand] += 1
            rounded[operand] += rounds
    return frozenset(narrowed)
