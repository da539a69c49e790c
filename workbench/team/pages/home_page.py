"""The first page: my projects, their rooms, and my jobs that wait or run."""

from collections.abc import Sequence
from typing import Any

from workbench.team.access import ProjectRole
from workbench.team.pages.page_handler import PageHandler, gather

MOST_PROJECTS = 12
"""Projects whose rooms and jobs are looked for; the page names all."""
_MOST_ROWS = 12


class HomePage(PageHandler):
    """See the module."""

    async def get(self) -> None:
        projects = (await self.ask("projects.list"))["items"]
        seen = [each for each in projects if each["role"] != str(ProjectRole.STUDENT)]
        near = [each for each in seen if each["rooms"] or not each["personal"]][:MOST_PROJECTS]
        rooms, jobs = await gather(gather(*map(self._rooms, near)), gather(*map(self._jobs, near)))
        self.show(
            "home.html",
            title="Projects",
            projects=projects,
            rooms=_latest(rooms, "touched"),
            jobs=_latest(jobs, "created"),
        )

    async def _rooms(self, project: Any) -> list[Any]:
        found = await self.ask("rooms.list", {"limit": str(_MOST_ROWS)}, project=project["slug"])
        return [
            {**each, "project_name": project["name"], "present": [person["display"] for person in each["people"]]}
            for each in found["items"]
        ]

    async def _jobs(self, project: Any) -> list[Any]:
        mine = {"author": self.require_principal().name, "limit": str(_MOST_ROWS)}
        found = await gather(
            *(self.ask("jobs.list", {**mine, "state": state}, project=project["slug"]) for state in ("running", "starting", "queued"))
        )
        named = {"project_name": project["name"], "project_slug": project["slug"]}
        return [{**each, **named, "plan_name": plan_name(each)} for part in found for each in part["items"]]


def plan_name(job: Any) -> str:
    """How a job's plan is called: by its entry, else by its digest."""
    return str(job["plan"]["name"]) if job["plan"] else f"plan {job['digest'][:10]}"


def _latest(parts: Sequence[Sequence[Any]], key: str) -> list[Any]:
    return sorted((each for part in parts for each in part), key=lambda each: -each[key])[:_MOST_ROWS]
