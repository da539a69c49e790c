"""The first page, with what is new in all projects; the people of a project, its links, its programs and its hardware."""

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.hardware.catalogue import parse_hardware
from workbench.team.access import ProjectRole
from workbench.team.actions.jobs import ENGINES
from workbench.team.pages.page_handler import PageHandler, ProjectPageHandler, gather
from workbench.team.pages.page_words import ENGINE_NAMES
from workbench.team.pages.plan_cards import plan_words

ROLES = tuple(map(str, ProjectRole))
_MOST = 200


class PeoplePage(ProjectPageHandler):
    """Who is in a project, with which role, and the links that lead into it."""

    async def get(self, project: str) -> None:
        found = await self.ask("projects.get", project=project)
        role = found["role"]
        members, rooms, plans = await gather(
            self.ask("members.list", project=project),
            self.ask_all("rooms.list", _MOST, {"closed": "true"}, project=project),
            self.ask_all("plans.list", _MOST, project=project),
        )
        shares = (await self.ask("shares.list", project=project))["items"] if role != "viewer" else []
        names = {each["id"]: f"room {each['name']}" for each in rooms} | {each["id"]: f"plan {each['name']}" for each in plans}
        open_rooms = [(each["id"], each["name"]) for each in rooms if not each["closed"]]
        await self.show_in_project(
            "people.html",
            project,
            "people",
            title="People",
            members=members["items"],
            roles=ROLES,
            usual_role="student" if found["assignments"] else "editor",
            rooms=open_rooms,
            plans=[(each["id"], plan_words(each)) for each in plans],
            shares=[_shown_share(each, names) for each in shares],
        )


def _shown_share(share: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    leads_to = names.get(share["room"] or share["entry"], "deleted item")
    return {**share, "by": share["by"]["display"], "leads_to": leads_to}


class HardwarePage(ProjectPageHandler):
    """What the team has, at which price."""

    async def get(self, project: str) -> None:
        rows = [_shown_hardware(each) for each in (await self.ask("hardware.list", project=project))["items"]]
        asked = self.get_query_argument("change", "")
        changed = next((each for each in rows if each["name"] == asked), {})
        engines = [(each, ENGINE_NAMES[each]) for each in ENGINES]
        await self.show_in_project("hardware.html", project, "hardware", title="Hardware", hardware=rows, changed=changed, engines=engines)


def _shown_hardware(row: Mapping[str, Any]) -> dict[str, Any]:
    """With the price of one device and of all: the team's own, else the list price."""
    own, devices = row["dollars_per_device_hour"], row["devices"]
    price = own if own is not None else _list_price(row["hardware"]) if devices else None
    options = "\n".join(f"{key}={value}" for key, value in row["options"].items())
    more = {"price": price, "whole": None if price is None else price * devices, "from_catalogue": own is None and price is not None}
    return {**row, **more, "options_text": options, "engine_name": ENGINE_NAMES[row["engine"]]}


def _list_price(hardware: str) -> float | None:
    found = parse_hardware(hardware)
    return None if found.hourly_price is None else found.hourly_price / found.size


class ProgramsPage(ProjectPageHandler):
    """The team's own programs."""

    async def get(self, project: str) -> None:
        found = await self.ask("programs.list", project=project)
        await self.show_in_project(
            "programs.html",
            project,
            "programs",
            title="Programs",
            programs=found["items"],
            may_approve=found["owners_approve"] or self.require_principal().admin,
            sandbox=self.sandbox_text,
        )


MOST_PROJECTS = 12
"""Projects whose rooms and jobs are looked for; the page names all."""
_MOST_ROWS = 12


class HomePage(PageHandler):
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
