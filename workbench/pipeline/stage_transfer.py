"""Duration of transfers between two stages, and whether devices compute meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from workbench.cost.collective_times import collective_seconds, group_of
from workbench.hardware.hardware import AxisTopology
from workbench.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Transfer:
    """`seconds(bytes)` from one stage to another; without `overlapped` the sender idles meanwhile.

    Transfers over one link in one direction run in sequence; different links, and both directions of a link, share no
    bandwidth. Behind a switch (PCIe, NVSwitch) all sends of a device use its only port, `shared_port`: a skip
    connection over many stages waits for the send to the next stage, and delays later sends.
    """

    seconds: Callable[[int], float]
    overlapped: bool = True
    shared_port: bool = False

    @classmethod
    def at(cls, bandwidth: float, latency: float = 0.0, *, overlapped: bool = True, shared_port: bool = False) -> "Transfer":
        """Return the transfer over a link of `bandwidth` bytes per second and `latency` seconds.

        >>> Transfer.at(100.0, latency=0.5).seconds(200)
        2.5
        """
        return cls(lambda count: latency + count / bandwidth, overlapped, shared_port)


FREE_TRANSFER = Transfer(lambda _: 0.0)


def transfer_of(plan: Plan) -> Transfer:
    """Return the transfer between stages over the pipeline axis, overlapped unless the runtime waits for sends."""
    hardware, spec = plan.hardware, plan.pipeline
    if hardware is None or spec is None:
        return FREE_TRANSFER
    waits = hardware.runtime.waits_for_sends
    group = group_of((spec.axis,), plan.mesh, hardware, plan.axis_assignment)

    @cache  # a step sends the same few sizes thousands of times
    def seconds(count: int) -> float:
        sent = collective_seconds("collective-permute", (spec.axis,), count, plan.mesh, hardware, plan.axis_assignment)
        return sent / hardware.chip.efficiency_of("transfer") if waits else sent

    return Transfer(seconds, overlapped=not waits, shared_port=any(each.shape is AxisTopology.SWITCH for level in group for each in level))
