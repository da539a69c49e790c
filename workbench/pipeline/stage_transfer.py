"""How long transfers between two stages take, and whether the devices compute meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from workbench.cost.collective_times import collective_seconds, group_of
from workbench.hardware.hardware import AxisTopology
from workbench.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Transfer:
    """`seconds(bytes)` from one stage to another; without `overlapped` the sender does nothing else meanwhile.

    Transfers over one link, in one direction, go one after the other; different links, and the two directions of one, do not share
    bandwidth. Behind a switch (PCIe, NVSwitch) all that a device sends goes through its one port, `shared_port`: a skip that crosses many
    stages waits for what the next stage is sent, and delays what follows.
    """

    seconds: Callable[[int], float]
    overlapped: bool = True
    shared_port: bool = False

    @classmethod
    def at(cls, bandwidth: float, latency: float = 0.0, *, overlapped: bool = True, shared_port: bool = False) -> "Transfer":
        """The transfer over a link of `bandwidth` bytes a second and `latency` seconds.

        >>> Transfer.at(100.0, latency=0.5).seconds(200)
        2.5
        """
        return cls(lambda count: latency + count / bandwidth, overlapped, shared_port)


FREE_TRANSFER = Transfer(lambda _: 0.0)


def transfer_of(plan: Plan) -> Transfer:
    """The transfer from one stage to the next over the links that the pipeline's axis runs over, overlapped with computation unless the
    runtime waits for it."""
    hardware, spec = plan.hardware, plan.pipeline
    if hardware is None or spec is None:
        return FREE_TRANSFER
    waits = hardware.runtime.waits_for_sends
    group = group_of((spec.axis,), plan.mesh, hardware, plan.axis_assignment)

    @cache  # a step sends the same few sizes thousands of times
    def seconds(count: int) -> float:
        sent = collective_seconds("collective-permute", (spec.axis,), count, plan.mesh, hardware, plan.axis_assignment)
        return sent / hardware.chip.efficiency_of("transfer") if waits else sent

    return Transfer(
        seconds,
        overlapped=not waits,
        shared_port=any(each.shape is AxisTopology.SWITCH for level in group for each in level),
    )
