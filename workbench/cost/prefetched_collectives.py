"""Collectives of a loop's iteration that need not wait for it, nor it for them: a runtime that prefetches has them beside other iterations.

So are weights gathered before their layer is reached (FSDP's forward and backward prefetch), and gradients summed while the layers before
compute theirs (DDP's and FSDP's reduction; Li et al. 2020, PyTorch Distributed, section 3.2.3; Zhao et al. 2023, PyTorch FSDP, section
3.3.2). Over the iterations of a loop such a collective costs what the links need beyond the kernels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.simulate_turn import Send, SimulatedTurn, busiest_link
from workbench.cost.timeline_regions import TimelineRegion
from workbench.propagation.module.operation_kinds import CONTROL_FLOW
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.aliased_values import PASSING
from workbench.propagation.structure.loop_invariants import returned_values
from workbench.propagation.structure.program_structure import Structure, TracedValue

_MOST = 64  # operations between an argument and what is gathered of it
_LONGEST = 64  # operations among which the last ones of a hand-written kernel are looked for
_AHEAD = 8  # matrices and scales of a layer of a Transformer


def floats(reshard: InsertedCollective, structure: Structure, kernels: Kernels, region: TimelineRegion, weights: frozenset[int]) -> bool:
    """Whether a collective is of weights alone; or, in a loop, nothing of the iteration waits for its result."""
    if reshard.source is None:
        return region.parent < 0 and reshard.kind == "all-gather" and structure.arguments[reshard.result] in weights
    sent = structure.ops[reshard.source].results[reshard.result]
    if region.parent < 0:
        return reshard.kind == "all-gather" and is_made_of_arguments(structure, sent, among=weights)
    if is_made_of_arguments(structure, sent, unchanged=region.unchanged):
        return True
    reader = kernels.of[reshard.before]
    if reader < 0:
        behind = readers_of(structure.ops[reshard.source].results, kernels)
    elif ends_kernel(reshard, structure, kernels):
        made = made_behind(reshard.before, structure, kernels)
        if not made.isdisjoint(returned_values(structure, reshard.region)):  # the next iteration begins with it
            return False
        behind = readers_of(made, kernels)
    else:
        return False
    return all(kernels.regions[each] != reshard.region for each in behind)


def readers_of(values: Iterable[int], kernels: Kernels) -> list[int]:
    """The kernels that read any of these values."""
    return kernels.readers[np.isin(kernels.read, list(values))].tolist()


def ends_kernel(reshard: InsertedCollective, structure: Structure, kernels: Kernels) -> bool:
    """Whether a hand-written kernel is done when it has made what a collective sums up: the gradient of a norm's scale, say."""
    if reshard.source is None or not structure.ops[reshard.source].custom_kernel:
        return False
    return reshard.kind in ("all-reduce", "reduce-scatter") and kernels.of[reshard.before] == kernels.of[reshard.source]


def made_behind(first: int, structure: Structure, kernels: Kernels) -> set[int]:
    """What the kernel of an operation makes from it on."""
    made = set(structure.ops[first].results)
    for number in range(first + 1, min(first + _LONGEST, len(structure.ops))):
        if kernels.of[number] == kernels.of[first] and not made.isdisjoint(structure.ops[number].operands):
            made.update(structure.ops[number].results)
    return made


def is_made_of_arguments(
    structure: Structure, value: int, *, unchanged: frozenset[int] = frozenset(), among: frozenset[int] | None = None
) -> bool:
    """Whether a value is computed from arguments of main alone, `among` these if any are given; in a loop from those that its iterations
    pass on as they are (`unchanged`) and the number of the iteration. So are weights, and not what an earlier loop has stacked."""
    pending = [value]
    for _ in range(_MOST):
        if not pending:
            return True
        number = pending.pop()
        each = structure.values[number]
        if each.maker >= 0:
            maker = structure.ops[each.maker]
            if maker.kind in CONTROL_FLOW:
                return False
            pending.extend(maker.operands[each.result : each.result + 1] if maker.kind in PASSING else maker.operands)
        elif each.region > 0 and number in unchanged:
            pending.append(structure.ops[structure.regions[each.region].parent].operands[each.result])
        elif (each.region > 0 and not _counts(each)) or (each.region == 0 and among is not None and number not in among):
            return False
    return False


def _counts(value: TracedValue) -> bool:
    """Whether it may be the number of an iteration."""
    return not value.shape and "float" not in value.dtype


def start_ahead(sends: Sequence[Send]) -> list[Send]:
    """`sends` of main, where what floats, the gathers of weights, starts about a layer ahead: each as soon as the one `_AHEAD` before it is
    needed.

    >>> [send.after for send in start_ahead([Send(7 * i, 7 * i + 1, 1.0, ("data",), False, floats=True) for i in range(10)])]
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 8]
    """
    found, order = list(sends), sorted((i for i, send in enumerate(sends) if send.floats), key=lambda number: sends[number].before)
    for place, number in enumerate(order):
        after = sends[order[place - _AHEAD]].before if place >= _AHEAD else 0
        found[number] = sends[number]._replace(after=after, overlaps=True, floats=False)
    return found


def simulate_beside_others(turn: SimulatedTurn, sends: Sequence[Send]) -> SimulatedTurn:
    """`turn`, simulated without the sends that float, with them: each link needs its time for all sends in each iteration."""
    waited = max(busiest_link(sends, [send.seconds for send in sends]) - turn.seconds, 0.0)
    total = sum(send.seconds for send in sends if send.floats) or 1.0
    waits = tuple(wait + waited * send.seconds / total * send.floats for wait, send in zip(turn.waits, sends, strict=True))
    return replace(turn, seconds=turn.seconds + waited, waits=waits)
