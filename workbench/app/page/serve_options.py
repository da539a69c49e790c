"""What a server of boards shows, sent to the processes of the boards; the server itself imports neither JAX nor a board."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.app.runners.job_queue import RUN_LIMIT
from workbench.plan.plan import Plan

if TYPE_CHECKING:
    from workbench.exercises import Exercise


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the pages show: a first plan from `make`, or `file`, or with `?file=` any plan file under `root`.

    `time_limit`: seconds for a run or compilation; `allow`: modules whose programs plan files, but not links, may name;
    `exercise`: shown on each board, or a function that loads it; `start`: a page without a plan opens the start panel,
    which looks for functions in `folder`, if given, and in the modules of `allow`.
    """

    make: Callable[[], Plan]
    file: Path | None = None
    root: Path | None = None
    tour: bool = False
    time_limit: float = RUN_LIMIT
    allow: tuple[str, ...] = ()
    exercise: "Exercise | Callable[[], Exercise] | None" = None
    start: bool = False
    folder: Path | None = None

    def load_exercise(self) -> "Exercise | None":
        """Return the exercise; raises the errors of its function."""
        return self.exercise() if callable(self.exercise) else self.exercise


def live_plan(plan: Plan) -> Callable[[], Plan]:
    """Return a picklable function that returns a plan with the functions to trace its program again."""
    return partial(_with_functions, plan, plan.program.retrace, plan.program.list_removed)


def _with_functions(plan: Plan, retrace: Any, list_removed: Any) -> Plan:
    return plan.updated(program=replace(plan.program, retrace=retrace, list_removed=list_removed))
