"""Parts of the server that an action asks, where there are such."""

from typing import TypeVar

from workbench.team.actions.action import Call
from workbench.team.actions.input_errors import UnavailableError
from workbench.team.web.services import JobService, Planner, Programs

Part = TypeVar("Part")


def planner_of(call: Call) -> Planner:
    """Whoever can read plan documents. Raises `UnavailableError`."""
    return _present(call.services.planner, "reads no plan documents")


def jobs_of(call: Call) -> JobService:
    """Whoever runs jobs. Raises `UnavailableError`."""
    return _present(call.services.jobs, "runs no jobs")


def programs_of(call: Call) -> Programs:
    """Whoever keeps the programs of projects. Raises `UnavailableError`."""
    return _present(call.services.programs, "takes no programs")


def _present(part: Part | None, lacks: str) -> Part:
    if part is None:
        raise UnavailableError(f"This server {lacks}.", ["ask an administrator"])
    return part
