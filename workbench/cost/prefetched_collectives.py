"""Collectives of a loop's iteration that need not wait for it, nor it for them: a runtime that prefetches has them beside other iterations.

So are weights gathered before their layer is reached (FSDP's forward and backward prefetch), and gradients summed while the layers before
compute theirs (DDP's and FSDP's reduction; Li et al. 2020, PyTorch Distributed, section 3.2.3; Zhao et al. 2023, PyTorch FSDP, section
3.3.2). Over the iterations of a loop such a collective costs what the links need beyond the kernels.
"""

from collections.abc import Sequence
from dataclasses import replace

from workbench.cost.simulate_turn import Send, SimulatedTurn, busiest_link
from workbench.propagation.structure.program_structure import Structure

_MOST = 64  # operations between an argument of a loop and what is gathered of it


def is_made_of_invariants(structure: Structure, value: int, invariant: frozenset[int]) -> bool:
    """Whether a value of a loop's body is computed from invariant arguments, values from outside, and the number of the iteration alone."""
    region, pending = structure.values[value].region, [value]
    for _ in range(_MOST):
        if not pending:
            return True
        number = pending.pop()
        each = structure.values[number]
        if each.region != region:
            continue
        if each.maker >= 0:
            pending.extend(structure.ops[each.maker].operands)
        elif number not in invariant and (each.shape or "float" in each.dtype):
            return False
    return False


def simulate_beside_others(turn: SimulatedTurn, sends: Sequence[Send]) -> SimulatedTurn:
    """`turn`, simulated without the sends that float, with them: each link needs its time for all sends in each iteration."""
    waited = max(busiest_link(sends, [send.seconds for send in sends]) - turn.seconds, 0.0)
    total = sum(send.seconds for send in sends if send.floats) or 1.0
    waits = tuple(wait + waited * send.seconds / total * send.floats for wait, send in zip(turn.waits, sends, strict=True))
    return replace(turn, seconds=turn.seconds + waited, waits=waits)
