"""A small team in a store: people of each role, two projects with one thing of every kind in each, and somebody who was shut out."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

import workbench as wb
from tests.support.team_server import add_person, new_store, sign_in
from workbench.analysis.analyze import analyze
from workbench.documents import dump_plan, parse_plan, program_from_reference
from workbench.team.access import SCOPES, Principal, ProjectRole
from workbench.team.accounts.revocations import issue_token, revoke_token
from workbench.team.accounts.user_accounts import add_project, disable_user, set_role
from workbench.team.actions.action import Inputs
from workbench.team.actions.all_actions import action_of
from workbench.team.actions.perform import Context, perform
from workbench.team.planning.grade_answers import describe_plan
from workbench.team.planning.room_process import ANSWERS
from workbench.team.rooms.planners import read_answer
from workbench.team.rooms.room_records import PushedPlan
from workbench.team.store.store import Store, digest_of, new_id, now
from workbench.team.store.tables import Base, LogEntry, RegisteredProgram, StoredFigures, StoredJob, User
from workbench.team.web.team_services import (
    DescribedPlan,
    JobRequest,
)

ROLES = {
    "ada": ProjectRole.OWNER,
    "rosa": ProjectRole.RUNNER,
    "ed": ProjectRole.EDITOR,
    "vic": ProjectRole.VIEWER,
    "stu": ProjectRole.STUDENT,
}
DIGEST = "d" * 64


@cache
def document(layout: str = "batch:data", mesh: str = "data:4", hardware: str | None = None) -> str:
    """A plan document of a small model of the zoo."""
    program = program_from_reference(wb.Reference("two_layer", {"batch": 16, "io": 8, "hidden": 16}))
    return dump_plan(wb.Plan(program, mesh, layout, hardware=hardware))


@cache
def exercise_document() -> str:
    """An exercise about a small plan, with a question of each kind."""
    goal = {"goal": "computes_once", "hint": "Split the batch."}
    plan = {"question": "plan", "name": "split", "ask": "Split it.", "start": "small", "may_change": ["layout"], "goals": [goal]}
    number = {"question": "number", "name": "devices", "ask": "How many devices?", "unit": "count", "answer": "4"}
    choices = [{"text": "yes", "right": True}, {"text": "no", "why": "It is."}]
    choice = {"question": "choice", "name": "which", "ask": "Is it split?", "choices": choices}
    return json.dumps(
        {
            "format": "sharding-workbench.exercise",
            "version": 1,
            "name": "small",
            "title": "A small plan",
            "plans": {"small": json.loads(document("", hardware="TPU v5e 2x2"))},
            "questions": [plan, number, choice],
        }
    )


@cache
def described(text: str) -> DescribedPlan:
    """What a planner says of a document. Raises `WorkbenchError`."""
    plan = parse_plan(text)
    return describe_plan(plan, analyze(plan))


class PlannerHere:
    """A planner in this process."""

    def is_ready(self) -> bool:
        return True

    async def describe_document(self, text: str, _program: RegisteredProgram | None) -> DescribedPlan:
        return described(text)

    async def ask(self, kind: Any, name: str, **given: Any) -> Any:
        return read_answer(kind, ANSWERS[name](**given))


@dataclass
class QueueAlone:
    """A queue whose jobs nobody takes; it has the events that a test gives it."""

    store: Store
    reported: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)

    def is_ready(self) -> bool:
        return True

    async def submit(self, request: JobRequest) -> str:
        row = job_row(
            request.project_id, request.author_id, request.digest, kind=request.kind, engine=request.engine, spec={"steps": request.steps}
        )
        with self.store.write() as session:
            session.add(row)
        return row.id

    async def cancel(self, job_id: str) -> None:
        with self.store.write() as session:
            session.get_one(StoredJob, job_id).cancel_asked = now()

    async def events(self, job_id: str, after: int, most: int) -> Sequence[Mapping[str, Any]]:
        return [each for each in self.reported.get(job_id, []) if each["seq"] > after][:most]


@dataclass
class ProgramsAlone:
    """Programs whose files nobody fetches."""

    store: Store

    async def add(self, project_id: str, author_id: str, name: str, target: str, kind: Any, locator: str, _wheel: bytes | None) -> str:
        row = program_row(project_id, author_id, name, target, kind, locator)
        with self.store.write() as session:
            session.add(row)
        return row.id

    async def approve(self, program_id: str, approver_id: str, _digest: str) -> None:
        self._set(program_id, state="approved", approved_by=approver_id, approved=now())

    async def withdraw(self, program_id: str) -> None:
        self._set(program_id, state="withdrawn")

    def _set(self, program_id: str, **values: Any) -> None:
        with self.store.write() as session:
            row = session.get_one(RegisteredProgram, program_id)
            for key, value in values.items():
                setattr(row, key, value)


@dataclass
class RoomsAlone:
    """Says which rooms were asked again."""

    asked_again: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    pushed: list[tuple[str, PushedPlan]] = field(default_factory=list)

    def count(self) -> int:
        return 0

    def people_in(self, _room_id: str) -> list[str]:
        return self.present

    async def push_plan(self, room_ids: list[str], pushed: PushedPlan) -> None:
        self.pushed += [(each, pushed) for each in room_ids]

    async def changed(self, room_ids: Sequence[str]) -> None:
        self.asked_again += room_ids


def parts_of_server(store: Store) -> dict[str, Any]:
    """Services that stand in for whoever works outside of this process."""
    return {"planner": PlannerHere(), "jobs": QueueAlone(store), "programs": ProgramsAlone(store), "rooms": RoomsAlone()}


def job_row(project_id: str, author_id: str, digest: str, **values: Any) -> StoredJob:
    """A job that waits."""
    own = {"id": new_id(), "project_id": project_id, "author_id": author_id, "digest": digest, "kind": "run", "engine": "here", "spec": {}}
    rest = dict.fromkeys(("room_id", "native", "started", "ended", "cancel_asked"))
    return StoredJob(**{**own, **rest, "state": "queued", "summary": {}, "problem": "", "created": now(), **values})


def program_row(project_id: str, author_id: str, name: str, target: str, kind: str = "git", locator: str = "x 1") -> RegisteredProgram:
    """A program that was fetched."""
    own = {"id": new_id(), "project_id": project_id, "name": name, "target": target, "kind": kind, "locator": locator, "digest": DIGEST}
    rest = {"state": "fetched", "problem": "", "by": author_id, "created": now(), "approved_by": None, "approved": None}
    return RegisteredProgram(**own, **rest)


@dataclass
class TeamWorld:
    """`people` are ids by name; `things` of a project are ids by kind; `cookies` and `tokens` are secrets."""

    store: Store
    services: Any
    people: dict[str, str] = field(default_factory=dict)
    things: dict[str, dict[str, str]] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    _watching: Connection | None = field(default=None, init=False, repr=False)
    _dumped: tuple[int, dict[str, list[tuple[Any, ...]]]] = field(default=(-1, {}), init=False, repr=False)

    def principal(self, name: str, scopes: frozenset[str] | None = None) -> Principal:
        """The person behind a request."""
        way = "login" if scopes is None else "token"
        return Principal(self.people[name], name, name.title(), name == "root", way, "key", scopes)

    def do(self, action: str, name: str | None, body: Any = None, query: Mapping[str, Any] | None = None, **path: str) -> Any:
        """What an action answers a person; raises what it raises."""
        context = Context(self.services, self.principal(name) if name else None)
        return asyncio.run(perform(action_of(action), context, Inputs(path, query or {}, body)))

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of all tables, but for when a token was used; read anew where somebody has written since."""
        if (written := self._written()) != self._dumped[0]:
            self._dumped = written, self._read_all()
        return self._dumped[1]

    def _written(self) -> int:
        """What SQLite changes, as one connection sees it, with each commit of another."""
        self._watching = self._watching or self.store.engine.connect()
        version: int = self._watching.exec_driver_sql("PRAGMA data_version").scalar_one()
        self._watching.rollback()
        return version

    def _read_all(self) -> dict[str, list[tuple[Any, ...]]]:
        with self.store.read() as session:
            tables = {each: [column for column in each.columns if column.name != "used"] for each in Base.metadata.sorted_tables}
            rows = {each.name: session.execute(each.select().with_only_columns(*columns)) for each, columns in tables.items()}
            return {name: sorted(map(tuple, found), key=repr) for name, found in rows.items()}


def people_world(store: Store, services: Any) -> TeamWorld:
    """The people, and their two projects, `vision` and `other`."""
    world = TeamWorld(store, services)
    for name in (*ROLES, "sam", "dora", "root"):
        world.people[name] = add_person(store, name, admin=name == "root")
    with store.write() as session:
        for slug, owner in (("vision", "ada"), ("other", "sam")):
            world.things[slug] = {"project": slug, "id": add_project(session, slug, slug.title(), owner=world.people[owner]).id}
        for name, role in {**ROLES, "dora": ProjectRole.OWNER}.items():
            set_role(session, world.things["vision"]["id"], world.people[name], role)
    for name in world.people:
        world.cookies[name] = sign_in(store, world.people[name])
        world.tokens[name] = make_token(world, name)
    with store.write() as session:
        disable_user(session, session.get_one(User, world.people["dora"]))
    return world


def make_token(
    world: TeamWorld, name: str, scopes: tuple[str, ...] = SCOPES, expires: float | None = None, *, revoked: bool = False
) -> str:
    """The secret of a new token."""
    with world.store.write() as session:
        issued = issue_token(session, world.people[name], "script", scopes, expires)
        session.flush()
        if revoked:
            revoke_token(session, issued.id, world.people[name])
    return issued.secret


def add_things(world: TeamWorld) -> TeamWorld:
    """One thing of every kind in both projects, and the secrets of links to them."""
    for slug, owner in (("vision", "ada"), ("other", "sam")):
        things = world.things[slug]
        entry = world.do("plans.push", owner, {"document": document(f"batch:data{'; hidden:data' * (slug == 'other')}")}, project=slug)
        second = world.do("plans.push", owner, {"document": document("", "data:2", "TPU v5e 2x4")}, project=slug)
        room = world.do("rooms.open", owner, {"plan": entry["id"], "name": "Tuesday"}, project=slug)
        comment = world.do("comments.add", owner, {"node": 0, "text": "why?"}, room=room["id"])
        link = world.do("shares.of_room", owner, {"role": "editor"}, room=room["id"])
        plan_link = world.do("shares.of_entry", owner, {}, entry=entry["id"])
        world.do("hardware.set", owner, {"hardware": "TPU v5e 4x4", "dollars_per_device_hour": 0.9}, project=slug, hardware="pod")
        assignment = world.do("assignments.create", owner, {"exercise": exercise_document(), "ranked": "split", "size": 2}, project=slug)
        student = "stu" if slug == "vision" else owner
        work = world.do("work.start", student, {}, assignment=assignment["id"])
        right = {"question": "split", "answer": document("batch:data", hardware="TPU v5e 2x2")}
        world.do("answers.hand_in", student, right, assignment=assignment["id"])
        things |= {"assignment": assignment["id"], "work": work["room"], "place": "1"}
        job, program = _add_rows(world, slug, owner, entry["digest"], room["id"])
        things |= {"entry": entry["id"], "second": second["id"], "digest": entry["digest"], "room": room["id"], "comment": comment["id"]}
        things |= {"share": link["id"], "job": job, "program": program, "hardware": "pod"}
        things |= {"room_secret": secret_of(link["address"]), "plan_secret": secret_of(plan_link["address"])}
    return world


def secret_of(address: str) -> str:
    """The secret at the end of a link."""
    return address.rpartition("/")[2]


def _add_rows(world: TeamWorld, slug: str, owner: str, digest: str, room_id: str) -> tuple[str, str]:
    project_id, person = world.things[slug]["id"], world.people[owner]
    job, program = job_row(project_id, person, digest, room_id=room_id), program_row(project_id, person, "mine", "mine:build")
    log = LogEntry(room_id=room_id, seq=1, author_id=person, kind="edit", body={"edit": {}}, digest=digest, created=now())
    with world.store.write() as session:
        session.add_all([job, program, log])
        values = {"peak_bytes": 10, "sent_bytes": 5, "step_seconds": 0.5, "fits": True}
        own = {"digest": digest, "tier": "measured", "version": "1", "job_id": job.id, "created": now()}
        if session.get(StoredFigures, (digest, "measured")) is None:
            session.add(StoredFigures(**own, values=values, thumbnail=""))
    world.services.jobs.reported[job.id] = [{"seq": 1, "time": 1.0, "kind": "step", "step": 1}]
    return job.id, program.id


def login_name(cookie: str) -> str:
    """What the API calls the login of a cookie."""
    return digest_of(cookie)[:20]


def make_world(folder: Path) -> TeamWorld:
    """The whole team, without a server."""
    from tests.support.team_server import make_services

    store = new_store(folder)
    return add_things(people_world(store, make_services(folder, store, **parts_of_server(store))))
