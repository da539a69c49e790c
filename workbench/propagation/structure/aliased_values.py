"""Views: values in the memory of others: a reshape, a transpose, a slice, what only passes a barrier."""

from workbench.propagation.structure.program_structure import Structure

PASSING = frozenset({"stablehlo.optimization_barrier", "sdy.data_flow_edge", "sdy.sharding_constraint"})
DYNAMIC_SLICE = "stablehlo.dynamic_slice"
VIEWING = PASSING | {"stablehlo.reshape", "stablehlo.transpose", DYNAMIC_SLICE}


def resolve_view(structure: Structure, value: int) -> int:
    """The value whose memory a value is a view of."""
    while (born := structure.values[value].maker) >= 0 and structure.ops[born].kind in VIEWING:
        value = structure.ops[born].operands[0]
    return value


def uses_of(structure: Structure) -> list[int]:
    """How many operations read each value, through views of it."""
    uses = [0] * len(structure.values)
    for op in reversed(structure.ops):
        view = op.kind in VIEWING and len(op.results) == 1
        for operand in set(op.operands):
            uses[operand] += uses[op.results[0]] if view else 1
    return uses
