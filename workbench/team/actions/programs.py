"""Team programs: added from a git commit or a wheel, and run only after an owner approves the fetched files by digest."""

import asyncio
import binascii
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta
from sqlalchemy import func, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ForbiddenError, InputError, ProjectRole
from workbench.team.actions.action import ADMIN, Call, action, member, programs_of
from workbench.team.actions.schemas import Digest, Id, PersonRecord, Record, Slug, Time, Word, described, people_by_id, project_slugs
from workbench.team.store.tables import Member, Project, RegisteredProgram

WHEEL = 12 << 20  # characters of a wheel in base64: 9 MiB
_OWNER = member(ProjectRole.OWNER, "program")
_TARGET = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
Source = Literal["git", "wheel"]


class ProgramRecord(Record, frozen=True):
    id: Id
    project: Slug
    name: str
    target: str
    kind: Source
    locator: str
    digest: str | None
    state: str
    problem: str
    by: PersonRecord
    created: Time
    approved_by: PersonRecord | None
    approved: Time | None


class ProgramList(Record, frozen=True):
    items: list[ProgramRecord]
    owners_approve: bool


class NewProgram(Record, frozen=True):
    name: Annotated[Word, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")]
    target: Annotated[str, Meta(min_length=3, max_length=200, pattern=_TARGET, description="module:function, which builds the program")]
    kind: Source
    locator: Annotated[
        Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[!-~]+( [!-~]+)*$")],
        described("address and commit of the repository, or the wheel's file name"),
    ]
    wheel: (
        Annotated[
            str,
            Meta(
                min_length=1, max_length=WHEEL, description="the wheel itself, in base64", extra_json_schema={"contentEncoding": "base64"}
            ),
        ]
        | None
    ) = None


@action("programs.list", "GET /projects/{project}/programs", member(ProjectRole.VIEWER), "read")
def _list(call: Call) -> ProgramList:
    """List the programs of a project."""
    statement = select(RegisteredProgram).where(RegisteredProgram.project_id == call.project.id)
    programs = call.session.scalars(statement.order_by(RegisteredProgram.created.desc(), RegisteredProgram.id)).all()
    approve = _owners_approve(call.session, call.project, call.services.owners_approve)
    return ProgramList(items=_records(call.session, programs), owners_approve=approve)


@action("programs.waiting", "GET /programs", ADMIN, "manage")
def _list_waiting(call: Call) -> list[ProgramRecord]:
    """List the programs of all projects that wait for approval."""
    statement = select(RegisteredProgram).where(RegisteredProgram.state == "fetched").order_by(RegisteredProgram.created)
    return _records(call.session, call.session.scalars(statement).all())


def _owners_approve(session: DatabaseSession, project: Project, policy: str) -> bool:
    """Return whether owners approve programs. One-member projects count as personal: nobody else reviews there."""
    if policy != "shared":
        return policy == "all"
    members = select(func.count()).select_from(Member).where(Member.project_id == project.id)
    return project.personal_of is None and (session.scalar(members) or 0) > 1


async def _ask_to_add(call: Call, new: NewProgram) -> str:
    if (new.kind == "wheel") != (new.wheel is not None):
        raise InputError("Send a wheel as `wheel`, in base64; a git repository takes no `wheel`.", ["see /api/v1/openapi.json"])
    wheel = await asyncio.to_thread(_decoded, new.wheel) if new.wheel is not None else None
    arguments = (call.project.id, call.person.user_id, new.name, new.target, new.kind, new.locator, wheel)
    return await programs_of(call).add(*arguments)


def _decoded(text_of_wheel: str) -> bytes:
    try:
        return binascii.a2b_base64(text_of_wheel, strict_mode=True)
    except ValueError:
        raise InputError("`wheel` is not base64.", ["encode the file: base64 -w0 my.whl"]) from None


async def _ask_to_approve(call: Call, digest: Digest) -> None:
    await asyncio.to_thread(_verify_may_approve, call)
    await programs_of(call).approve(call.found.resource.id, call.person.user_id, digest)


def _verify_may_approve(call: Call) -> None:
    policy = call.services.owners_approve
    with call.services.store.read() as session:
        if call.person.admin or _owners_approve(session, call.project, policy):
            return
    reason = "it is a personal project" if policy == "shared" else "administrators approve all programs of this server"
    raise ForbiddenError(
        f"An administrator has to approve the program `{call.found.resource.name}`: {reason}.",
        ["ask an administrator", *(["register it in a project with other members"] if policy == "shared" else [])],
    )


async def _ask_to_withdraw(call: Call) -> None:
    await programs_of(call).withdraw(call.found.resource.id)


@action(
    "programs.add", "POST /projects/{project}/programs", member(ProjectRole.OWNER), "manage", prepare=_ask_to_add, status=201, subject="id"
)
def _added(call: Call) -> ProgramRecord:
    """Add a program from git or from a wheel."""
    return _records(call.session, [call.session.get_one(RegisteredProgram, call.prepared)])[0]


@action("programs.get", "GET /programs/{program}", member(ProjectRole.VIEWER, "program"), "read", "See a program")
@action(
    "programs.approve",
    "POST /programs/{program}/approval",
    _OWNER,
    "manage",
    "Approve the files of a program so that it can run",
    prepare=_ask_to_approve,
)
@action(
    "programs.withdraw",
    "DELETE /programs/{program}",
    _OWNER,
    "manage",
    "Withdraw a program so that it can no longer run",
    prepare=_ask_to_withdraw,
)
def _get(call: Call) -> ProgramRecord:
    return _records(call.session, [call.found.resource])[0]


def _records(session: DatabaseSession, programs: Sequence[RegisteredProgram]) -> list[ProgramRecord]:
    people = people_by_id(session, (user_id for program in programs for user_id in (program.by, program.approved_by)))
    slugs = project_slugs(session, (program.project_id for program in programs))
    return [
        ProgramRecord.of(
            program, project=slugs[program.project_id], by=people[program.by], approved_by=people.get(program.approved_by or "")
        )
        for program in programs
    ]
