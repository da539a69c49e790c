"""Offloading: bytes in the host's memory, and bytes over the link to it."""

from collections.abc import Sequence
from dataclasses import replace

from workbench.hardware.hardware import Chip
from workbench.propagation import Propagated
from workbench.propagation.structure.program_structure import Structure, TracedValue
from workbench.reports.step_time import StepTime


def host_memory(partitioned: Propagated, local_bytes: Sequence[int]) -> tuple[int, int]:
    """Bytes one device keeps on the host, and bytes it sends there and fetches back per step.

    The first counts all at once, at the end of the forward pass, when the backward pass has fetched nothing yet.
    """
    structure = partitioned.structure
    host_bytes = sum(
        local_bytes[index]
        for index, value in enumerate(structure.values)
        if value.on_host and value.maker >= 0 and value.region == 0 and _is_new_on_host(structure, value)
    )
    moved = sum(local_bytes[op.results[0]] * structure.regions[op.region].runs_per_step for op in structure.ops if op.placement)
    return host_bytes, moved


def _is_new_on_host(structure: Structure, value: TracedValue) -> bool:
    """Whether a value on the host is new there: a copy, or what a loop stacks copies in, not what it only reads."""
    op = structure.ops[value.maker]
    if value.maker not in structure.body_of:
        return bool(op.placement)
    body = structure.body_of[value.maker]
    argument = next(
        each
        for each in structure.regions[body].values
        if structure.values[each].maker < 0 and structure.values[each].result == value.result
    )
    returned = next(each for each in reversed(structure.ops) if each.region == body).operands
    return returned[value.result] != argument


def with_transfers(time: StepTime, moved: int, chip: Chip) -> StepTime:
    """The step with `moved` bytes over the host link. Copies overlap with the step, as XLA makes them asynchronous: only the time the link
    takes beyond the rest of the step is exposed."""
    seconds = moved / chip.host_bandwidth
    waited = max(0.0, seconds - time.total)
    share = time.total / (time.total + waited) if waited else 1.0
    exposed, hidden = time.exposed + waited, time.hidden + seconds - waited
    return replace(time, exposed=exposed, hidden=hidden, mfu=time.mfu * share, hfu=time.hfu * share)
