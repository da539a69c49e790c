"""Other ways to train the same models, and how long each would take (Hydra TR, section 4; partly derived here)."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.multimodel.schedule_bounds import pack_models
from workbench.multimodel.unit_chains import Job


@dataclass(frozen=True, slots=True)
class Strategy:
    """Another way to train the same models: seconds in all, transfers not counted; `note` states its assumptions."""

    name: str
    seconds: float
    note: str


def strategies(jobs: Sequence[Job], devices: int, micro_batches: int | None = None) -> tuple[Strategy, ...]:
    """One model at a time, model parallel, task parallel, pipelined; GPipe's rule of thumb is four micro-batches per device.

    >>> from workbench.multimodel.unit_chains import chain
    >>> three = [chain(name, (1.0,) * 4) for name in "abc"]
    >>> [(each.name, each.seconds) for each in strategies(three, devices=2, micro_batches=8)]
    [('one at a time', 12.0), ('model parallel', 12.0), ('task parallel', 8.0), ('pipelined', 6.75)]
    """
    micro = micro_batches or 4 * devices
    whole = sum(each.seconds for each in jobs)
    together = [each.with_contention(devices).seconds for each in jobs]
    return (
        Strategy("one at a time", whole, "each model alone on one device"),
        Strategy("model parallel", whole, "each model over all devices, of which one computes at a time"),
        Strategy("task parallel", pack_models(together, devices), "each model whole on one device, if it fits there"),
        Strategy(
            "pipelined",
            sum(together) * (micro + devices - 1) / (micro * devices),
            f"each model over all devices, {micro} micro-batches, balanced",
        ),
    )
