"""Programs of a project's own: added from a commit of a git repository or from a wheel, and run only once an owner has approved the files
that were fetched, by their digest."""

import asyncio
import binascii
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ForbiddenError, ProjectRole
from workbench.team.actions.action import ADMIN, Action, Call, member
from workbench.team.actions.input_errors import InputError
from workbench.team.actions.people_records import people_by_id, project_slugs
from workbench.team.actions.schemas import DIGEST, FLAG, ID, NAME, PERSON, SLUG, TEXT, TIME, list_of, one_of, or_none, record, text
from workbench.team.actions.server_parts import programs_of
from workbench.team.store.tables import Member, Project, RegisteredProgram

WHEEL = 12 << 20  # characters of a wheel in base64: 9 MiB
_PROGRAM = record(
    {
        "id": ID,
        "project": SLUG,
        "name": TEXT,
        "target": TEXT,
        "kind": one_of("git", "wheel"),
        "locator": TEXT,
        "digest": or_none(TEXT),
        "state": TEXT,
        "problem": TEXT,
        "by": PERSON,
        "created": TIME,
        "approved_by": or_none(PERSON),
        "approved": or_none(TIME),
    }
)
_TARGET = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
_NEW = record(
    {
        "name": text(NAME, 1, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$"),
        "target": text(200, 3, pattern=_TARGET, description="module:function, which builds the program"),
        "kind": one_of("git", "wheel"),
        "locator": text(
            500, 1, pattern=r"^[!-~]+( [!-~]+)*$", description="address and commit of the repository, or the wheel's file name"
        ),
    },
    {"wheel": text(WHEEL, 1, description="the wheel itself, in base64", encoding="base64")},
)


def _list(call: Call) -> dict[str, Any]:
    wanted = select(RegisteredProgram).where(RegisteredProgram.project_id == call.project.id)
    found = call.session.scalars(wanted.order_by(RegisteredProgram.created.desc(), RegisteredProgram.id)).all()
    return {
        "items": _records(call.session, list(found)),
        "owners_approve": _owners_approve(call.session, call.project, call.services.owners_approve),
    }


def _list_waiting(call: Call) -> dict[str, Any]:
    wanted = select(RegisteredProgram).where(RegisteredProgram.state == "fetched").order_by(RegisteredProgram.created)
    return {"items": _records(call.session, list(call.session.scalars(wanted)))}


def _owners_approve(session: DatabaseSession, project: Project, policy: str) -> bool:
    """Whether owners of a project approve its programs. A project of one person is as good as a personal one: nobody else looks at what
    is approved there."""
    if policy != "shared":
        return policy == "all"
    members = select(func.count()).select_from(Member).where(Member.project_id == project.id)
    return project.personal_of is None and (session.scalar(members) or 0) > 1


async def _ask_to_add(call: Call) -> str:
    body = call.body
    if (body["kind"] == "wheel") != ("wheel" in body):
        raise InputError("A wheel is sent as `wheel`, in base64; a git repository has none.", ["see /api/v1/openapi.json"])
    given = await asyncio.to_thread(_decoded, body["wheel"]) if "wheel" in body else None
    to_add = (call.project.id, call.person.user_id, body["name"], body["target"], body["kind"], body["locator"], given)
    return await programs_of(call).add(*to_add)


def _decoded(text_of_wheel: str) -> bytes:
    try:
        return binascii.a2b_base64(text_of_wheel, strict_mode=True)
    except ValueError:
        raise InputError("`wheel` is not base64.", ["encode the file: base64 -w0 my.whl"]) from None


async def _ask_to_approve(call: Call) -> None:
    await asyncio.to_thread(_verify_may_approve, call)
    await programs_of(call).approve(call.found.resource.id, call.person.user_id, call.body["digest"])


def _verify_may_approve(call: Call) -> None:
    """Raises `ForbiddenError` for an owner where an administrator has to approve."""
    policy = call.services.owners_approve
    with call.services.store.read() as session:
        if call.person.admin or _owners_approve(session, call.project, policy):
            return
    reason = "it is the project of one person" if policy == "shared" else "administrators approve all programs of this server"
    raise ForbiddenError(
        f"An administrator has to approve the program `{call.found.resource.name}`: {reason}.",
        ["ask an administrator", *(["register it in a project with other members"] if policy == "shared" else [])],
    )


async def _ask_to_withdraw(call: Call) -> None:
    await programs_of(call).withdraw(call.found.resource.id, call.person.user_id)


def _added(call: Call) -> dict[str, Any]:
    return _records(call.session, [call.session.get_one(RegisteredProgram, call.prepared)])[0]


def _get(call: Call) -> dict[str, Any]:
    return _records(call.session, [call.found.resource])[0]


def _records(session: DatabaseSession, programs: list[RegisteredProgram]) -> list[dict[str, Any]]:
    people = people_by_id(session, (name for each in programs for name in (each.by, each.approved_by)))
    slugs = project_slugs(session, (each.project_id for each in programs))
    return [
        {
            "id": each.id,
            "project": slugs[each.project_id],
            "name": each.name,
            "target": each.target,
            "kind": each.kind,
            "locator": each.locator,
            "digest": each.digest,
            "state": each.state,
            "problem": each.problem,
            "by": people[each.by],
            "created": each.created,
            "approved_by": people.get(each.approved_by or ""),
            "approved": each.approved,
        }
        for each in programs
    ]


_OWNER = member(ProjectRole.OWNER, "program")

ACTIONS = (
    Action(
        "programs.list",
        "GET",
        "/projects/{project}/programs",
        "List the programs of a project",
        member(ProjectRole.VIEWER),
        "read",
        record({"items": list_of(_PROGRAM), "owners_approve": FLAG}),
        _list,
    ),
    Action(
        "programs.waiting",
        "GET",
        "/programs",
        "List the programs of all projects that wait for approval",
        ADMIN,
        "manage",
        record({"items": list_of(_PROGRAM)}),
        _list_waiting,
    ),
    Action(
        "programs.add",
        "POST",
        "/projects/{project}/programs",
        "Add a program, from git or from a wheel",
        member(ProjectRole.OWNER),
        "manage",
        _PROGRAM,
        _added,
        body=_NEW,
        prepare=_ask_to_add,
        status=201,
        subject="id",
    ),
    Action("programs.get", "GET", "/programs/{program}", "See a program", member(ProjectRole.VIEWER, "program"), "read", _PROGRAM, _get),
    Action(
        "programs.approve",
        "POST",
        "/programs/{program}/approval",
        "Approve the files of a program, so that it runs",
        _OWNER,
        "manage",
        _PROGRAM,
        _get,
        body=record({"digest": DIGEST}),
        prepare=_ask_to_approve,
    ),
    Action(
        "programs.withdraw",
        "DELETE",
        "/programs/{program}",
        "Withdraw a program, so that it runs no more",
        _OWNER,
        "manage",
        _PROGRAM,
        _get,
        prepare=_ask_to_withdraw,
    ),
)
