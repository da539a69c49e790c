"""What people do in a room that concerns more than it: a plan goes into the gallery, and a branch is a room of one's own. A notice
says what came of it, and the room goes on, whatever fails.

**Invariants**

- A room's process may run somebody's code, so what it says of a plan is not believed beyond its own room: the digest is computed here, the
  program read from the document, and a room about one program saves no plan of another.
- A branch is a copy of the log. Neither room's later edits are seen in the other.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import func, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.errors import WorkbenchError
from workbench.team.access import ForbiddenError, ProjectRole, require
from workbench.team.actions.action import Inputs
from workbench.team.actions.all_actions import action_of
from workbench.team.actions.classes.given_answers import keep_answer
from workbench.team.actions.held_roles import role_in_project
from workbench.team.actions.perform import Context, perform
from workbench.team.actions.plans import keep_plan
from workbench.team.actions.quotas import verify_quotas
from workbench.team.jobs.job_events import JobEvent
from workbench.team.rooms.planners import read_answer
from workbench.team.rooms.room_notices import RoomGuest, problem_text, show_notice
from workbench.team.rooms.room_records import RoomSource, keep_card
from workbench.team.store.database_errors import DatabaseProblemError
from workbench.team.store.store import Store, digest_of
from workbench.team.store.tables import AuditEntry, GalleryEntry, LogEntry, StoredJob, StoredPlan, StoredRoom, TeamHardware, User
from workbench.team.web.team_services import DescribedPlan, GradedAnswer, TeamServices

# Runs that people begin on a room's board, as jobs of the team: where the project's hardware catalogue says, else on this machine.

Tell = Callable[[Mapping[str, Any]], None]
"""Passes what happens to a job to the room's process."""


class RoomJobs:
    """The jobs that rooms wait for. `listen` is for the dispatcher, which calls from its threads."""

    def __init__(self, services: TeamServices) -> None:
        self._services, self._lock = services, threading.Lock()
        self._followed: dict[str, tuple[int, Tell]] = {}

    def submit(self, source: RoomSource, guest: RoomGuest, digest: str, steps: int, number: int, tell: Tell) -> None:
        """Put a run into the queue; it is followed from then on. Raises `WorkbenchError` for somebody who may not, or too much."""
        place = self._place_for(source, digest)
        body = {"plan": digest, "steps": steps, **place}
        job = self._perform("jobs.submit", guest, Inputs({"project": source.project}, {}, body))
        with self._lock:
            self._followed[job["id"]] = number, tell
        tell({"job": number, "state": "queued", "ahead": self._ahead(job["id"]), "events": []})

    def cancel(self, guest: RoomGuest, number: int, tell: Tell) -> None:
        """Ask for a job of the room to be ended. Raises `WorkbenchError` for somebody else's."""
        with self._lock:
            job_id = next((each for each, (known, to) in self._followed.items() if known == number and to == tell), None)
        if job_id is not None:
            self._perform("jobs.cancel", guest, Inputs({"job": job_id}))

    def forget(self, tell: Tell) -> None:
        """The room's process has ended: its jobs go on, and their figures come to the gallery."""
        with self._lock:
            self._followed = {job_id: known for job_id, known in self._followed.items() if known[1] != tell}

    def hear(self, job_id: str, events: Sequence[JobEvent], state: str) -> None:
        """What happened to any job of the server."""
        with self._lock:
            known = self._followed.get(job_id)
            if known is not None and state in ("done", "failed", "cancelled"):
                del self._followed[job_id]
        if known is not None:
            known[1]({"job": known[0], "state": state, "events": [each.record() for each in events]})

    def _place_for(self, source: RoomSource, digest: str) -> Mapping[str, Any]:
        """Which engine has the hardware of the plan, by the project's catalogue."""
        with self._services.store.read() as session:
            hardware = session.scalar(select(StoredPlan.hardware).where(StoredPlan.digest == digest))
            of_project = select(TeamHardware).where(TeamHardware.project_id == source.project_id, TeamHardware.hardware == hardware)
            found = session.scalars(of_project.order_by(TeamHardware.name).limit(1)).first() if hardware else None
        return {"engine": found.engine, "options": found.options} if found else {}

    def _ahead(self, job_id: str) -> int:
        """How many jobs of the same engine wait before it."""
        with self._services.store.read() as session:
            job = session.get(StoredJob, job_id)
            if job is None:
                return 0
            before = (StoredJob.engine == job.engine, StoredJob.state == "queued", StoredJob.created < job.created)
            return session.scalar(select(func.count()).select_from(StoredJob).where(*before)) or 0

    def _perform(self, name: str, guest: RoomGuest, inputs: Inputs) -> Any:
        return asyncio.run(perform(action_of(name), Context(self._services, guest.principal), inputs))


_NOT_COUNTED = "This answer does not count"
MOST_NAME = 80  # characters of a plan's name
_TIERS = frozenset(("planned", "partitioned", "compiled"))  # what was measured, a job says


class StoredRoomActions:
    """They are kept in a store; `address` is the server as people reach it. `jobs` is set once there is a queue."""

    def __init__(self, store: Store, address: str) -> None:
        self._store, self._address = store, address
        self.jobs: RoomJobs | None = None

    def save(self, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> str:
        """Store a plan that a room's process describes; the address of its gallery. Raises `WorkbenchError` for a person who may not."""
        self._verify_editor(source, guest)
        self._keep(source, guest, message["save"], str(message["name"]))
        return f"{self._address}/p/{source.project}/"

    def run(self, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any], tell: Tell) -> None:
        """Submit a run of a plan, which goes into the gallery: its figures will stand there. Raises `WorkbenchError` for a person who may
        not."""
        require(guest.role, ProjectRole.RUNNER, "run a plan")
        if self.jobs is None:
            raise WorkbenchError("This server runs no jobs.", ["ask its administrator"])
        digest = self._keep(source, guest, message["run"], str(message["name"]))
        self.jobs.submit(source, guest, digest, int(message["steps"]), int(message["job"]), tell)

    def _keep(self, source: RoomSource, guest: RoomGuest, record: Mapping[str, Any], name: str) -> str:
        described = read_answer(DescribedPlan, record)
        _verify(described, source)
        with self._store.write() as session:
            keep_plan(session, described)
            _add_entry(session, source, guest, described.digest, name[:MOST_NAME])
        return described.digest

    def _verify_editor(self, source: RoomSource, guest: RoomGuest) -> None:
        """Raises `ForbiddenError` for somebody who edits by a link or for an assignment: they do so in this room alone."""
        with self._store.read() as session:
            held = role_in_project(session, session.get_one(User, guest.principal.user_id), source.project_id)
        if held is ProjectRole.STUDENT:
            raise ForbiddenError("Plans of students cannot be added to a gallery.", ["submit it with Check", "export it"])
        require(held, ProjectRole.EDITOR, "add a plan to the gallery")

    def hand_in(self, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> str:
        """Keep an answer to an exercise; what its people have to know of it. Raises `WorkbenchError` for what is none."""
        graded = read_answer(GradedAnswer, message)
        with self._store.write() as session:
            verify_quotas(session, "answers.hand_in", guest.principal.user_id)
            answer = keep_answer(session, source.room_id, guest.principal.user_id, graded)
            entry = {"user_id": guest.principal.user_id, "project_id": source.project_id, "subject": graded.question}
            session.add(AuditEntry(action="answers.hand_in", details={"room": source.room_id}, **entry))
            return "The deadline has passed: the answer is kept but does not count." if answer.late else ""

    def keep_card(self, source: RoomSource, message: Mapping[str, Any]) -> None:
        """Keep what the wall shows of the work on an assignment."""
        if source.exercise:
            with suppress(DatabaseProblemError):  # on a full disk the wall shows an older one, and the room goes on
                keep_card(self._store, source.room_id, message["card"], message["thumbnail"])

    def branch(self, source: RoomSource, guest: RoomGuest) -> str:
        """A room of the person's own with a copy of the log; its address. Raises `ForbiddenError` for a viewer of the project."""
        with self._store.write() as session:
            user = session.get_one(User, guest.principal.user_id)
            require(role_in_project(session, user, source.project_id), ProjectRole.EDITOR, "branch off")
            verify_quotas(session, "rooms.open", user.id)
            origin = session.get_one(StoredRoom, source.room_id)
            room_id = _copy_room(session, origin, guest)
        return f"{self._address}/room/{room_id}"

    def comments_of(self, source: RoomSource) -> str:
        """The path under which comments are written, of this server."""
        return f"{urlsplit(self._address).path}/api/v1/rooms/{source.room_id}/comments"

    def gallery_of(self, source: RoomSource) -> str:
        """The address of the project's gallery, or of the room's assignment."""
        return f"{self._address}/p/{source.project}/{f'assignments/{source.assignment}' if source.assignment else ''}"


@contextmanager
def _telling(guest: RoomGuest, title: str) -> Iterator[None]:
    """Whatever fails is a notice under this title, and the room goes on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        show_notice(guest.screen, title, problem_text(error))


def save_plan(actions: StoredRoomActions, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> None:
    """Put a plan that the room's process describes into the gallery."""
    with _telling(guest, "This plan was not added to the gallery"):
        place, text = actions.save(source, guest, message), f"This plan is in the gallery of {source.project}."
        show_notice(guest.screen, "In the gallery", text, [["open", "Show it", place]], good=True)


def hand_in_answer(actions: StoredRoomActions, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> None:
    """Keep an answer of somebody whose work this is."""
    if guest.is_participant:
        with _telling(guest, _NOT_COUNTED):
            if problem := actions.hand_in(source, guest, message["answered"]):
                show_notice(guest.screen, _NOT_COUNTED, problem)


def branch_off(actions: StoredRoomActions, source: RoomSource, guest: RoomGuest) -> None:
    """Make a room of the person's own with this room's history."""
    with _telling(guest, "No branch was made"):
        place, text = actions.branch(source, guest), "It starts with the history of this room; edits there do not change this room."
        show_notice(guest.screen, "Your own room", text, [["open", "Go there", place]], good=True)


def _copy_room(session: DatabaseSession, origin: StoredRoom, guest: RoomGuest) -> str:
    name = f"{guest.principal.display}'s branch of {origin.name}"[:MOST_NAME]
    copied = {"project_id": origin.project_id, "program_id": origin.program_id, "first": origin.first}
    room = StoredRoom(name=name, by=guest.principal.user_id, **copied)
    session.add(room)
    session.flush()
    for entry in session.scalars(select(LogEntry).where(LogEntry.room_id == origin.id).order_by(LogEntry.seq)).all():
        fields = {"seq": entry.seq, "author_id": entry.author_id, "kind": entry.kind, "body": entry.body, "digest": entry.digest}
        session.add(LogEntry(room_id=room.id, created=entry.created, **fields))
    details = {"of": origin.id}
    session.add(AuditEntry(user_id=guest.principal.user_id, action="rooms.branch", subject=room.id, details=details))
    return room.id


def _verify(described: DescribedPlan, source: RoomSource) -> None:
    if described.digest != digest_of(described.document) or described.target != _target_in(described.document):
        raise WorkbenchError(
            "The figures of the room's process do not match the document of this plan.", ["reload the page and save again"]
        )
    if not set(described.figures) <= _TIERS:
        raise WorkbenchError("The room's process sent invalid figures.", ["reload the page and save again"])
    if source.program is not None and described.target != source.program.target:
        raise WorkbenchError(
            f"This room is about `{source.program.target}`, and the plan is of `{described.target[:200]}`.", ["open it anew"]
        )


def _target_in(document: str) -> Any:
    try:
        return json.loads(document)["program"]["target"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _add_entry(session: DatabaseSession, source: RoomSource, guest: RoomGuest, digest: str, name: str) -> None:
    """One entry for each plan that a person saved from the room. Raises `ConflictError` for somebody who has as many as one may."""
    author = guest.principal.user_id
    same = (GalleryEntry.room_id == source.room_id, GalleryEntry.digest == digest, GalleryEntry.author_id == author)
    if session.scalars(select(GalleryEntry).where(*same, GalleryEntry.withdrawn.is_(None)).limit(1)).first() is not None:
        return
    verify_quotas(session, "plans.push", author)
    whose = {"project_id": source.project_id, "author_id": author, "room_id": source.room_id}
    entry = GalleryEntry(digest=digest, name=name or source.name, **whose)
    session.add(entry)
    session.flush()
    details = {"project": source.project, "room": source.room_id, "digest": digest}
    session.add(AuditEntry(user_id=author, action="plans.save", subject=entry.id, details=details))
