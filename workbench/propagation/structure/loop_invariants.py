"""What a loop carries and never changes: constants of a `lax.scan`, and the stacks it takes slices of."""

from workbench.propagation.structure.program_structure import Structure


def unchanged_slots(structure: Structure, loop: int) -> frozenset[int]:
    """The places among a loop's operands whose value its body hands on as it is."""
    body = structure.body_of[loop]
    arguments = [each for each in structure.regions[body].values if structure.values[each].maker < 0]
    handed_on = zip(arguments, returned_values(structure, body), strict=False)
    return frozenset(slot for slot, (argument, value) in enumerate(handed_on) if argument == value)


def returned_values(structure: Structure, body: int) -> tuple[int, ...]:
    """What the body of a loop hands on to its next iteration."""
    last = max((index for index, op in enumerate(structure.ops) if op.region == body), default=None)
    return () if last is None else structure.ops[last].operands


def unchanged_arguments(structure: Structure) -> frozenset[int]:
    """The arguments of loops' bodies that stand for such values."""
    found: set[int] = set()
    for loop, body in structure.body_of.items():
        arguments = [each for each in structure.regions[body].values if structure.values[each].maker < 0]
        found.update(arguments[slot] for slot in unchanged_slots(structure, loop))
    return frozenset(found)
