"""Where a fleet stands in mid-run: what a simulation of the rest goes on from."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.multimodel.jobs import Job


@dataclass(frozen=True, slots=True)
class FleetProgress:
    """Seconds from the start of the run.

    - of each model: units that are `done`, the unit before which it ends (`last`), and when its state was `back` on the host;
    - of each device: when it was `free` again; devices that are `away` take nothing.
    """

    done: tuple[int, ...]
    last: tuple[int, ...]
    back: tuple[float, ...]
    free: tuple[float, ...]
    away: frozenset[int] = frozenset()

    @classmethod
    def at_start(cls, jobs: Sequence[Job], devices: int, done: Sequence[int] | None = None) -> "FleetProgress":
        """Nothing has run yet, or `done` units of each, in a run before."""
        models = len(jobs)
        return cls(tuple(done or (0,) * models), tuple(each.length for each in jobs), (0.0,) * models, (0.0,) * devices)
