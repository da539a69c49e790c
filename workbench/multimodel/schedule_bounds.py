"""Lower and upper bounds on a schedule (Hydra TR, section 4; partly derived here)."""

from collections.abc import Sequence

from workbench.multimodel.unit_chains import Job


def lower_bound(jobs: Sequence[Job], devices: int, done: Sequence[int] = ()) -> float:
    """`max(sum R_i / P, max R_i)`: all the work shared out, or the longest model, whose units run one after the other.

    On devices that slow each other down the work is counted as if all compute (a unit of `s` seconds among `k` devices takes up `s / k` of
    each second of all of them, which is least with all of them), and the longest model as if it were alone. Units that are `done` do not
    count.

    >>> from workbench.multimodel.unit_chains import chain
    >>> lower_bound([chain("a", (1.0,) * 4), chain("b", (1.0,) * 4), chain("c", (1.0,) * 8)], devices=2)
    8.0
    """
    left = list(zip(jobs, done or [0] * len(jobs), strict=True))
    return max(sum(job.device_seconds(devices, begin) for job, begin in left) / devices, *(job.remaining(begin) for job, begin in left))


def list_bound(jobs: Sequence[Job], devices: int) -> float:
    """Upper bound of any list schedule, one that leaves no device idle while a unit is eligible (Graham 1966): `(2 - 1/P)` times the lower
    bound, for units at their slowest."""
    return (2 - 1 / devices) * lower_bound([each.with_contention(devices) for each in jobs], devices)


def pack_models(lengths: Sequence[float], devices: int) -> float:
    """Seconds of whole models on devices, the longest first, onto the first free device: at most 4/3 of the optimum (Graham 1969)."""
    loads = [0.0] * devices
    for length in sorted(lengths, reverse=True):
        loads[loads.index(min(loads))] += length
    return max(loads)
