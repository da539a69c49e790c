"""Values that are stored in two bytes although the program computes them in four: those that only dots of default precision read, which
round them to bfloat16 themselves. XLA:TPU rounds them where they are made (`float_type_correction_info` in its modules)."""

from workbench.propagation.module.operation_kinds import DOTS
from workbench.propagation.structure.aliased_values import VIEWING
from workbench.propagation.structure.program_structure import Structure

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
