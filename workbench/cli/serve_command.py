"""`workbench serve`: the page of boards. The process that listens does not import JAX; the processes of the boards do."""

import argparse
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.shared_arguments import allowed_modules, is_private, listening, reach_of
from workbench.core.installation import install_command
from workbench.engine.cluster.process_relay import CLUSTER
from workbench.engine.cluster.ray_cluster import verify_shared_cluster
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.exercises.exercise import Exercise
    from workbench.plan.plan import Plan

CHANGES = (
    "mesh",
    "layout",
    "remat",
    "precision",
    "offload",
    "hardware",
    "link",
    "axis_assignment",
    "pipeline",
)  # options that change the plan of the file


def serve(options: argparse.Namespace) -> None:
    _say_phase(options, "Starting the page")
    try:
        from workbench.app.page.serve import serve
    except ModuleNotFoundError as error:
        raise WorkbenchError(f"The page needs `{error.name}`, which is not installed.", [install_command("app")]) from None
    reach = reach_of(options)  # before anything is traced
    if options.cluster:
        verify_shared_cluster(options.cluster)
        os.environ[CLUSTER] = options.cluster
    if options.fleet:
        from workbench.cli import fleet_command

        with listening(options):
            fleet_command.serve(options, reach)
        return
    if options.root and not Path(options.root).is_dir():
        raise WorkbenchError(f"`{options.root}` is not a folder.", ["give a folder that holds plan files"])
    exercise = functools.partial(_load_exercise, options.exercise) if options.exercise else None
    changed = any(getattr(options, name) not in (None, []) for name in CHANGES)
    file = options.plan if options.plan and not changed else None
    opened = {"file": file, "root": options.root, "open_browser": not options.no_open, "unix_socket": options.unix_socket}
    opened["allow"] = (*allowed_modules(options), *([options.model] if options.model and ":" in options.model else []))
    opened["verify"] = not options.unix_socket  # behind a proxy nobody reads this terminal: there an error is shown on the page
    opened["tour"] = not options.plan and not options.model and exercise is None  # on the example, not on the user's own plan
    opened["exercise"] = exercise
    opened["start"] = opened["tour"] and not changed
    opened["folder"] = Path.cwd() if is_private(options) else None
    if options.lesson is not None:
        opened["query"] = f"?lesson={options.lesson}" if options.lesson else "?lessons"
        print(f"Lessons: http://localhost:{options.port}/{opened['query']}")
    with listening(options):
        _say_phase(options, "Preparing the first board")
        make = functools.partial(_first_plan, options)
        serve(make, port=options.port, jobs=options.jobs, time_limit=options.time_limit, **opened, **reach)


def _say_phase(options: argparse.Namespace, phase: str) -> None:
    """Print the current phase immediately; behind a proxy nobody reads it."""
    if not options.unix_socket:
        print(f"{phase} ...", flush=True)


@functools.cache
def _load_exercise(path: str) -> "Exercise":
    """The exercise of a file; called in the process of a board."""
    from workbench.exercises.exercise import Exercise

    return Exercise.load(path)


def _first_plan(options: argparse.Namespace) -> "Plan":
    """The plan of a page; called in the process of a board, which is kept off the accelerators."""
    if options.exercise and not options.plan and not options.model:
        return _load_exercise(options.exercise).first_plan
    from workbench.cli.plan_arguments import plan_of

    return plan_of(options)
