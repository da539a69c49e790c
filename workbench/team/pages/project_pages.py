"""The home page, and a project's people, links, hardware and programs."""

from collections.abc import Mapping, Sequence
from time import time
from typing import Any

from workbench.hardware.catalogue import parse_hardware
from workbench.team.access import ProjectRole
from workbench.team.actions.jobs import ENGINES
from workbench.team.pages.page_handler import PageHandler, ProjectPageHandler, gather
from workbench.team.pages.page_words import ENGINE_NAMES
from workbench.team.pages.plan_cards import plan_label

ROLES = tuple(map(str, ProjectRole))
_MOST = 200


class PeoplePage(ProjectPageHandler):
    async def get(self, project: str) -> None:
        record = await self.ask("projects.get", project=project)
        role = record["role"]
        members, rooms, plans = await gather(
            self.ask("members.list", project=project),
            self.ask_all("rooms.list", _MOST, {"closed": "true"}, project=project),
            self.ask_all("plans.list", _MOST, project=project),
        )
        shares = (await self.ask("shares.list", project=project))["items"] if role != "viewer" else []
        names = {room["id"]: f"room {room['name']}" for room in rooms} | {plan["id"]: f"plan {plan['name']}" for plan in plans}
        open_rooms = [(room["id"], room["name"]) for room in rooms if not room["closed"]]
        await self.show_in_project(
            "people.html",
            project,
            "people",
            title="People",
            members=members["items"],
            roles=ROLES,
            usual_role="student" if record["assignments"] else "editor",
            rooms=open_rooms,
            plans=[(plan["id"], plan_label(plan)) for plan in plans],
            shares=[
                {**each, "by": each["by"]["display"], "leads_to": names.get(each["room"] or each["entry"], "deleted item")}
                for each in shares
            ],
        )


class HardwarePage(ProjectPageHandler):
    async def get(self, project: str) -> None:
        rows = [_shown_hardware(item) for item in (await self.ask("hardware.list", project=project))["items"]]
        name = self.get_query_argument("change", "")
        changed = next((row for row in rows if row["name"] == name), {})
        engines = [(engine, ENGINE_NAMES[engine]) for engine in ENGINES]
        await self.show_in_project("hardware.html", project, "hardware", title="Hardware", hardware=rows, changed=changed, engines=engines)


def _shown_hardware(row: Mapping[str, Any]) -> dict[str, Any]:
    own_price, devices = row["dollars_per_device_hour"], row["devices"]
    price = own_price if own_price is not None else _list_price(row["hardware"]) if devices else None
    options = "\n".join(f"{key}={value}" for key, value in row["options"].items())
    extra = {"price": price, "whole": None if price is None else price * devices, "from_catalogue": own_price is None and price is not None}
    return {**row, **extra, "options_text": options, "engine_name": ENGINE_NAMES[row["engine"]]}


def _list_price(hardware: str) -> float | None:
    parsed = parse_hardware(hardware)
    return None if parsed.hourly_price is None else parsed.hourly_price / parsed.size


class ProgramsPage(ProjectPageHandler):
    async def get(self, project: str) -> None:
        programs = await self.ask("programs.list", project=project)
        await self.show_in_project(
            "programs.html",
            project,
            "programs",
            title="Programs",
            programs=programs["items"],
            may_approve=programs["owners_approve"] or self.require_principal().admin,
            sandbox=self.sandbox_text,
        )


MOST_PROJECTS = 12
"""Maximum number of projects whose rooms and jobs are shown; the page lists all projects."""
_MOST_ROWS = 12
_WEEK = 7 * 86_400.0  # seconds for which a failed job is shown


class HomePage(PageHandler):
    async def get(self) -> None:
        projects = (await self.ask("projects.list"))["items"]
        visible = [project for project in projects if project["role"] != str(ProjectRole.STUDENT)]
        active = [project for project in visible if project["rooms"] or not project["personal"]][:MOST_PROJECTS]
        classes = [project for project in projects if project not in visible]
        parts = ((self._rooms, active), (self._jobs, active), (self._work, classes))
        rooms, jobs, assigned = await gather(*(gather(*map(ask, found)) for ask, found in parts))
        found = _latest(jobs, "created")
        self.show(
            "home.html",
            title="Projects",
            projects=projects,
            assignments=[project for part in assigned for project in part],
            only_student=bool(classes) and not any(project["plans"] or project["rooms"] or not project["personal"] for project in visible),
            rooms=_latest(rooms, "touched"),
            jobs=[project for project in found if project["state"] != "failed"],
            failed=[project for project in found if project["state"] == "failed" and project["ended"] > time() - _WEEK],
            begins=next((project["slug"] for project in visible if project["role"] != str(ProjectRole.VIEWER)), ""),
        )

    async def _work(self, project: Any) -> list[Any]:
        """The assignments of a class that are not over."""
        found = (await self.ask("assignments.list", project=project["slug"]))["items"]
        return [{**each, "class": project["name"]} for each in found if not each["over"]]

    async def _rooms(self, project: Any) -> list[Any]:
        page = await self.ask("rooms.list", {"limit": str(_MOST_ROWS)}, project=project["slug"])
        return [
            {**room, "project_name": project["name"], "present": [person["display"] for person in room["people"]]} for room in page["items"]
        ]

    async def _jobs(self, project: Any) -> list[Any]:
        query = {"author": self.require_principal().name, "limit": str(_MOST_ROWS)}
        states = ("running", "starting", "queued", "failed")
        pages = await gather(*(self.ask("jobs.list", {**query, "state": job}, project=project["slug"]) for job in states))
        labels = {"project_name": project["name"], "project_slug": project["slug"]}
        return [{**job, **labels, "plan_name": plan_name(job)} for page in pages for job in page["items"]]


def plan_name(job: Any) -> str:
    return str(job["plan"]["name"]) if job["plan"] else f"plan {job['digest'][:10]}"


def _latest(parts: Sequence[Sequence[Any]], key: str) -> list[Any]:
    return sorted((item for part in parts for item in part), key=lambda item: -item[key])[:_MOST_ROWS]
