"""The engines that a set-up names, and how a job of a registered program is walled off.

[jobs]
engines = ["here", "slurm"]

[jobs.limits.slurm]
jobs = 40
devices = 512

[jobs.ray]
address = "http://127.0.0.1:8265"
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError, unknown_name
from workbench.team.jobs.dispatcher import Dispatcher
from workbench.team.jobs.job_spec import JobError, JobSpec
from workbench.team.jobs.kubernetes import Kubernetes
from workbench.team.jobs.local_engine import JobEngine, LocalEngine
from workbench.team.jobs.queue import JobLimits
from workbench.team.jobs.ray import Ray
from workbench.team.jobs.slurm import Slurm
from workbench.team.programs.program_registry import ProgramRegistry
from workbench.team.store.store import Store
from workbench.team.team_config import FILE, TeamConfig

ALL_ENGINES = (LocalEngine, Slurm, Ray, Kubernetes)
"""The class of each engine; `name` is what a job's row says."""


_MAKERS = {each.name: each for each in ALL_ENGINES}
_CONFINED = "workbench.team.sandbox.sandboxed_job_main"


def make_dispatcher(config: TeamConfig, store: Store, programs: ProgramRegistry) -> Dispatcher:
    """The dispatcher of the engines that `[jobs]` names: this machine alone, unless it says otherwise. Raises `WorkbenchError`."""
    given = config.jobs
    engines = [_make_engine(name, given.get(name, {})) for name in given.get("engines", ["here"])]
    limits = {name: _read_limits(values) for name, values in given.get("limits", {}).items()}
    return Dispatcher(
        store,
        config.data.resolve() / "jobs",
        engines,
        limits=limits,
        confine=_confine(programs),
        program_folder=programs.folder_of,
    )


def _make_engine(name: str, options: Mapping[str, Any]) -> JobEngine:
    if name not in _MAKERS:
        message, ways_out = unknown_name("engine", name, sorted(_MAKERS))
        raise WorkbenchError(f"{FILE}: {message}", ways_out)
    maker: Callable[..., JobEngine] = _MAKERS[name]
    try:
        return maker(**{key: Path(value) if key == "mount" else value for key, value in options.items()})
    except TypeError as error:
        raise WorkbenchError(f"The options of the engine `{name}` in {FILE} are invalid: {error}.", ["see its documentation"]) from None


def _read_limits(values: Mapping[str, Any]) -> JobLimits:
    known = [each.name for each in fields(JobLimits)]
    if unknown := values.keys() - set(known):
        raise WorkbenchError(f"`[jobs.limits]` in {FILE} has an unknown `{min(unknown)}`.", [f"its limits are {', '.join(known)}"])
    return JobLimits(**values)


def _confine(programs: ProgramRegistry) -> Callable[[JobSpec, Path, Sequence[str]], Sequence[str]]:
    """The command of a job of a registered program, in a sandbox; one of the zoo is left as it is."""

    def confine(spec: JobSpec, folder: Path, command: Sequence[str]) -> Sequence[str]:
        if not spec.program:
            return command
        if spec.hosts * spec.processes > 1:
            raise JobError("A registered program has no network access, so it runs in one process.", ["give hosts=1 and processes=1"])
        allowed = programs.sandbox.ability.policy.arguments()
        confined = (str(folder), str(programs.folder_of(spec.program)), f"{spec.minutes * 60:g}", *allowed)
        return [command[0] or sys.executable, "-P", "-m", _CONFINED, *confined, "--", *command]

    return confine
