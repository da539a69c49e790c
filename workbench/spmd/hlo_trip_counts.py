"""How often a loop of an HLO module runs: as XLA proved, or by its counter: where that starts, its step, the limit it is compared with."""

from collections.abc import Iterator, Mapping
from math import ceil

from workbench.spmd.hlo_instruction import Computation, HloInstruction, root_of


def body_of(loop: HloInstruction) -> str:
    """The name of a loop's body."""
    return loop.called[0]


def condition_of(loop: HloInstruction) -> str:
    """The name of a loop's condition."""
    return loop.called[1]


def known_trip_count(loop: HloInstruction) -> int | None:
    """How often a `while` runs, as XLA proved; `None` if it did not."""
    known = loop.backend_config.get("known_trip_count", {}).get("n")
    return None if known is None else int(known)


def max_trip_count(computations: Mapping[str, Computation], home: Computation, loop: HloInstruction) -> int:
    """How often a `while` in the computation `home` runs at most: what its condition and its counter's step amount to, else 1."""
    condition = computations[condition_of(loop)]
    numbers = (each.whole_number for each in condition.values())
    limits = set(_limits(condition, root_of(condition))) or {each for each in numbers if each is not None}
    if len(limits) != 1:
        return 1
    start, step = _counter(computations[body_of(loop)], home, loop, condition)
    turns = max(ceil((limits.pop() - (start or 0)) / step), 0)
    return turns if turns or start is not None else 1  # it counts down from a value that depends on data


def _counter(body: Computation, home: Computation, loop: HloInstruction, condition: Computation) -> tuple[int | None, int]:
    """Where a loop's counter starts, if that is known, and what an iteration adds to it: 1 unless the program says otherwise.

    XLA:TPU unrolls a windowed einsum's body twice and keeps the bound, so that the step is 2.
    """
    indices = {each.element for each in condition.values() if each.opcode == "get-tuple-element"}
    if len(indices) != 1:
        return None, 1
    index = indices.pop()
    start = _element(home, loop, index)
    root = root_of(body)
    added = body.get(root.operands[index]) if root and root.opcode == "tuple" else None
    steps = [number for name in added.operands if (number := body[name].whole_number) is not None] if added else []
    is_sum = added is not None and added.opcode == "add" and len(steps) == 1
    return start.whole_number if start else None, (steps[0] if is_sum and steps[0] > 0 else 1)


def _element(home: Computation, loop: HloInstruction, index: int) -> HloInstruction | None:
    """The instruction that makes one element of a loop's operand, if that is a tuple in the same computation."""
    made = home.get(loop.operands[0])
    return home.get(made.operands[index]) if made and made.opcode == "tuple" else None


def _limits(condition: Computation, truth: HloInstruction | None) -> Iterator[int]:
    """The whole numbers that a condition, all of whose parts must hold, compares with."""
    if truth is not None and truth.opcode == "and":
        for name in truth.operands:
            yield from _limits(condition, condition[name])
    elif truth is not None and truth.opcode == "compare":
        yield from (limit for name in truth.operands if (limit := condition[name].whole_number) is not None)
