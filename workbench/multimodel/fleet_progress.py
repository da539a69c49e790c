"""The progress of a fleet in mid-run, from which a simulation of the rest continues."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.multimodel.unit_chains import Job


@dataclass(frozen=True, slots=True)
class FleetProgress:
    """The progress of models and devices; times in seconds from the start of the run.

    - for each model: units that are `done`, the unit before which it ends (`last`), and when its state was `back` on the host;
    - for each device: when it was `free` again; devices that are `away` take no units.
    """

    done: tuple[int, ...]
    last: tuple[int, ...]
    back: tuple[float, ...]
    free: tuple[float, ...]
    away: frozenset[int] = frozenset()

    @classmethod
    def at_start(cls, jobs: Sequence[Job], devices: int, done: Sequence[int] | None = None) -> "FleetProgress":
        """The progress at the start of a run: no units, or `done` units of each model in an earlier run."""
        models = len(jobs)
        return cls(tuple(done or (0,) * models), tuple(each.length for each in jobs), (0.0,) * models, (0.0,) * devices)
