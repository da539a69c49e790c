"""The home page, and a project's people, links, hardware and programs."""

from collections.abc import Mapping, Sequence
from time import time
from typing import Any

from workbench.hardware.catalogue import parse_hardware
from workbench.team.access import ProjectRole
from workbench.team.actions.jobs import ENGINES
from workbench.team.pages.page_handler import PageHandler, Values, gather, page
from workbench.team.pages.page_words import ENGINE_NAMES
from workbench.team.pages.plan_cards import plan_label

ROLES = tuple(map(str, ProjectRole))
_MOST = 200


@page("/p/{project}/people", "people.html", title="People", section="people")
async def _people(handler: PageHandler, project: str) -> Values:
    record = (await handler.project_values(project))["project"]
    members, rooms, plans = await gather(
        handler.ask("members.list", project=project),
        handler.ask_all("rooms.list", _MOST, {"closed": "true"}, project=project),
        handler.ask_all("plans.list", _MOST, project=project),
    )
    shares = (await handler.ask("shares.list", project=project))["items"] if record["role"] != "viewer" else []
    names = {room["id"]: f"room {room['name']}" for room in rooms} | {plan["id"]: f"plan {plan['name']}" for plan in plans}
    return {
        "members": members["items"],
        "roles": ROLES,
        "usual_role": "student" if record["assignments"] else "editor",
        "rooms": [(room["id"], room["name"]) for room in rooms if not room["closed"]],
        "plans": [(plan["id"], plan_label(plan)) for plan in plans],
        "shares": [
            {**share, "by": share["by"]["display"], "leads_to": names.get(share["room"] or share["entry"], "deleted item")}
            for share in shares
        ],
    }


@page("/p/{project}/hardware", "hardware.html", title="Hardware", section="hardware")
async def _hardware(handler: PageHandler, project: str) -> Values:
    rows = [_shown_hardware(item) for item in (await handler.ask("hardware.list", project=project))["items"]]
    name = handler.get_query_argument("change", "")
    changed = next((row for row in rows if row["name"] == name), {})
    return {"hardware": rows, "changed": changed, "engines": [(engine, ENGINE_NAMES[engine]) for engine in ENGINES]}


def _shown_hardware(row: Mapping[str, Any]) -> dict[str, Any]:
    own_price, devices = row["dollars_per_device_hour"], row["devices"]
    price = own_price if own_price is not None else _list_price(row["hardware"]) if devices else None
    options = "\n".join(f"{key}={value}" for key, value in row["options"].items())
    extra = {"price": price, "whole": None if price is None else price * devices, "from_catalogue": own_price is None and price is not None}
    return {**row, **extra, "options_text": options, "engine_name": ENGINE_NAMES[row["engine"]]}


def _list_price(hardware: str) -> float | None:
    parsed = parse_hardware(hardware)
    return None if parsed.hourly_price is None else parsed.hourly_price / parsed.size


@page("/p/{project}/programs", "programs.html", title="Programs", section="programs")
async def _programs(handler: PageHandler, project: str) -> Values:
    programs = await handler.ask("programs.list", project=project)
    may_approve = programs["owners_approve"] or handler.require_principal().admin
    return {"programs": programs["items"], "may_approve": may_approve, "sandbox": handler.sandbox_text}


MOST_PROJECTS = 12
"""Maximum number of projects whose rooms and jobs are shown; the page lists all projects."""
_MOST_ROWS = 12
_WEEK = 7 * 86_400.0  # seconds for which a failed job is shown


@page("/", "home.html", title="Projects")
async def _home(handler: PageHandler) -> Values:
    projects = (await handler.ask("projects.list"))["items"]
    visible = [project for project in projects if project["role"] != str(ProjectRole.STUDENT)]
    active = [project for project in visible if project["rooms"] or not project["personal"]][:MOST_PROJECTS]
    classes = [project for project in projects if project not in visible]
    parts = ((_rooms, active), (_jobs, active), (_work, classes))
    rooms, jobs, assigned = await gather(*(gather(*(ask(handler, project) for project in found)) for ask, found in parts))
    found = _latest(jobs, "created")
    only_student = bool(classes) and not any(project["plans"] or project["rooms"] or not project["personal"] for project in visible)
    return {
        "title": "Assignments" if only_student else "Projects",
        "projects": projects,
        "assignments": [assignment for part in assigned for assignment in part],
        "only_student": only_student,
        "rooms": _latest(rooms, "touched"),
        "jobs": [job for job in found if job["state"] != "failed"],
        "failed": [job for job in found if job["state"] == "failed" and job["ended"] > time() - _WEEK],
        "begins": next((project["slug"] for project in visible if project["role"] != str(ProjectRole.VIEWER)), ""),
    }


async def _work(handler: PageHandler, project: Any) -> list[Any]:
    """The assignments of a class that are not over."""
    found = (await handler.ask("assignments.list", project=project["slug"]))["items"]
    return [{**assignment, "class": project["name"]} for assignment in found if not assignment["over"]]


async def _rooms(handler: PageHandler, project: Any) -> list[Any]:
    rooms = (await handler.ask("rooms.list", {"limit": str(_MOST_ROWS)}, project=project["slug"]))["items"]
    return [{**room, "project_name": project["name"], "present": [person["display"] for person in room["people"]]} for room in rooms]


async def _jobs(handler: PageHandler, project: Any) -> list[Any]:
    query = {"author": handler.require_principal().name, "limit": str(_MOST_ROWS)}
    states = ("running", "starting", "queued", "failed")
    found = await gather(*(handler.ask("jobs.list", {**query, "state": state}, project=project["slug"]) for state in states))
    labels = {"project_name": project["name"], "project_slug": project["slug"]}
    return [{**job, **labels, "plan_name": plan_name(job)} for jobs in found for job in jobs["items"]]


def plan_name(job: Any) -> str:
    return str(job["plan"]["name"]) if job["plan"] else f"plan {job['digest'][:10]}"


def _latest(parts: Sequence[Sequence[Any]], key: str) -> list[Any]:
    return sorted((item for part in parts for item in part), key=lambda item: -item[key])[:_MOST_ROWS]
