"""Determines which weight products each value of a program depends on."""

from dataclasses import dataclass

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Program
from workbench.propagation import structure_of
from workbench.propagation.structure.program_structure import Structure
from workbench.recipes.traced_dots import TracedDot, find_weight_dots

_BATCH = 1
_MOST_PASSES = 4  # loops within loops


@dataclass(frozen=True, slots=True)
class WeightFlow:
    """The forward weight dots, and the set of those that each value depends on, as bits; the lowest is the batch.

    An iteration of a loop depends on the loop's operands, not on earlier iterations.
    """

    batch: str | None
    dots: tuple[TracedDot, ...]
    depends: tuple[int, ...]
    before: dict[int, int]  # dependencies of each dot's operands, by its operation
    read: int  # the dots whose results reach another dot

    def reads_batch(self, value: int) -> bool:
        return bool(self.depends[value] & _BATCH)

    def is_before(self, one: int, other: int) -> bool:
        """Return whether `other` depends on everything that `one` does, including the batch, and on more."""
        first, second = self.depends[one], self.depends[other]
        return bool(first & _BATCH) and first != second and first & second == first

    def is_read(self, dot: TracedDot) -> bool:
        """Return whether a later weight dot depends on this one."""
        return bool(self.read & 1 << self.dots.index(dot) + 1)

    def reads_weights(self, dot: TracedDot) -> bool:
        return self.before[dot.operation_id] > _BATCH


@cache_with_program(30)
def weight_flow(program: Program, batch: str | None) -> WeightFlow:
    structure, dots = structure_of(program), find_weight_dots(program, batch)
    depends = [0] * len(structure.values)
    for i in program.inputs:
        if batch in program.arguments[i].dims:
            depends[structure.arguments[i]] = _BATCH
    bits = {dot.operation_id: 1 << number + 1 for number, dot in enumerate(dots)}
    for _ in range(_MOST_PASSES if structure.body_of else 1):
        if not _pass_on(structure, depends, bits):
            break
    before = {number: _union(structure.ops[number].operands, depends) for number in bits}
    read = 0
    for dependencies in before.values():
        read |= dependencies
    return WeightFlow(batch, dots, tuple(depends), before, read)


def _union(values: tuple[int, ...], depends: list[int]) -> int:
    combined = 0
    for value in values:
        combined |= depends[value]
    return combined


def _pass_on(structure: Structure, depends: list[int], bits: dict[int, int]) -> bool:
    """One pass over all operations; returns whether anything changed. Loop results propagate in the next pass."""
    last = {op.region: op for op in structure.ops}
    is_changed = False
    for number, op in enumerate(structure.ops):
        if (body := structure.body_of.get(number)) is not None:
            arguments = [value_number for value_number in structure.regions[body].values if structure.values[value_number].maker < 0]
            pairs = [*zip(arguments, op.operands, strict=False), *zip(op.results, last[body].operands, strict=False)]
            new = [(value, depends[source]) for value, source in pairs]
        else:
            new = [(value, _union(op.operands, depends) | bits.get(number, 0)) for value in op.results]
        for value, dependencies in new:
            if dependencies | depends[value] != depends[value]:
                depends[value] |= dependencies
                is_changed = True
    return is_changed
