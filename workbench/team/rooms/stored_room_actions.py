"""Room requests that affect the store: gallery entries, runs, answers and branches. Failures become notices, and the
room goes on.

**Invariants**

- A room's process may run user code, so its descriptions are trusted only for its own room: the digest is computed
  here, the program is read from the document, and a room about one program cannot save plans of another.
- A branch is a copy of the log. Later edits of either room do not appear in the other.
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
from workbench.team.actions.classes.given_answers import store_answer
from workbench.team.actions.held_roles import role_in_project
from workbench.team.actions.perform import Context, perform
from workbench.team.actions.plans import store_plan
from workbench.team.actions.quotas import verify_quotas
from workbench.team.jobs.job_events import JobEvent
from workbench.team.jobs.queue import ENDED
from workbench.team.rooms.planners import read_answer
from workbench.team.rooms.room_notices import RoomGuest, as_problem, problem_text, show_notice
from workbench.team.rooms.room_records import RoomSource, keep_card
from workbench.team.store.database_errors import DatabaseProblemError
from workbench.team.store.store import Store, digest_of
from workbench.team.store.tables import AuditEntry, GalleryEntry, LogEntry, StoredJob, StoredPlan, StoredRoom, TeamHardware, User
from workbench.team.web.team_services import DescribedPlan, GradedAnswer, TeamServices

# Runs of a room's board as team jobs, on the engine of the project's hardware, else on this machine.

Tell = Callable[[Mapping[str, Any]], None]
"""Sends job events to the room's process."""


class RoomJobs:
    """The jobs that rooms follow. `hear` is called from the dispatcher's threads."""

    def __init__(self, services: TeamServices) -> None:
        self._services, self._lock = services, threading.Lock()
        self._followed: dict[str, tuple[int, Tell]] = {}

    def submit(self, source: RoomSource, guest: RoomGuest, digest: str, steps: int, number: int, tell: Tell) -> None:
        """Queue and follow a run. Raises `WorkbenchError` if the user may not run it or exceeds a limit."""
        place = self._place_for(source, digest)
        body = {"plan": digest, "steps": steps, **place}
        job = self._perform("jobs.submit", guest, Inputs({"project": source.project}, {}, body))
        with self._lock:
            self._followed[job["id"]] = number, tell
        tell({"job": number, "state": "queued", "ahead": self._ahead(job["id"]), "events": []})

    def cancel(self, guest: RoomGuest, number: int, tell: Tell) -> None:
        with self._lock:
            job_id = next((key for key, (run, listener) in self._followed.items() if run == number and listener == tell), None)
        if job_id is not None:
            self._perform("jobs.cancel", guest, Inputs({"job": job_id}))

    def forget(self, tell: Tell) -> None:
        """Stop following the jobs of an ended process; they continue, and their figures go to the gallery."""
        with self._lock:
            self._followed = {job_id: followed for job_id, followed in self._followed.items() if followed[1] != tell}

    def hear(self, job_id: str, events: Sequence[JobEvent], state: str) -> None:
        with self._lock:
            followed = self._followed.get(job_id)
            if followed is not None and state in ("done", "failed", "cancelled"):
                del self._followed[job_id]
        if followed is not None:
            followed[1]({"job": followed[0], "state": state, "events": [event.record() for event in events]})

    def _place_for(self, source: RoomSource, digest: str) -> Mapping[str, Any]:
        with self._services.store.read() as session:
            hardware = session.scalar(select(StoredPlan.hardware).where(StoredPlan.digest == digest))
            of_project = select(TeamHardware).where(TeamHardware.project_id == source.project_id, TeamHardware.hardware == hardware)
            hardware_row = session.scalars(of_project.order_by(TeamHardware.name).limit(1)).first() if hardware else None
        return {"engine": hardware_row.engine, "options": hardware_row.options} if hardware_row else {}

    def _ahead(self, job_id: str) -> int:
        with self._services.store.read() as session:
            job = session.get(StoredJob, job_id)
            if job is None:
                return 0
            conditions = (StoredJob.engine == job.engine, StoredJob.state == "queued", StoredJob.created < job.created)
            return session.scalar(select(func.count()).select_from(StoredJob).where(*conditions)) or 0

    def _perform(self, name: str, guest: RoomGuest, inputs: Inputs) -> Any:
        return asyncio.run(perform(action_of(name), Context(self._services, guest.principal), inputs))


_NOT_COUNTED = "This answer does not count"
MOST_NAME = 80  # characters of a plan's name
_TIERS = frozenset(("planned", "partitioned", "compiled"))  # measured figures come from jobs only


class StoredRoomActions:
    """Room requests on a store; `address` is the server's public address. `jobs` is set once there is a queue."""

    def __init__(self, store: Store, address: str) -> None:
        self._store, self._address = store, address
        self.jobs: RoomJobs | None = None

    def save(self, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> str:
        """Store a described plan and return the gallery's address. Raises `WorkbenchError` if the user may not."""
        self._verify_editor(source, guest)
        self._keep(source, guest, message["save"], str(message["name"]))
        return f"{self._address}/p/{source.project}/"

    def run(self, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any], tell: Tell) -> None:
        """Submit a run and add its plan to the gallery. Raises `WorkbenchError` if the user may not."""
        require(guest.role, ProjectRole.RUNNER, "run a plan")
        if self.jobs is None:
            raise WorkbenchError("This server runs no jobs.", ["ask its administrator"])
        digest = self._keep(source, guest, message["run"], str(message["name"]))
        self.jobs.submit(source, guest, digest, int(message["steps"]), int(message["job"]), tell)

    def _keep(self, source: RoomSource, guest: RoomGuest, record: Mapping[str, Any], name: str) -> str:
        described = read_answer(DescribedPlan, record)
        _verify(described, source)
        with self._store.write() as session:
            store_plan(session, described)
            _add_entry(session, source, guest, described.digest, name[:MOST_NAME])
        return described.digest

    def _verify_editor(self, source: RoomSource, guest: RoomGuest) -> None:
        """Raise `ForbiddenError` for users who edit by a link or for an assignment, which is limited to this room."""
        with self._store.read() as session:
            role = role_in_project(session, session.get_one(User, guest.principal.user_id), source.project_id)
        if role is ProjectRole.STUDENT:
            raise ForbiddenError("Plans of students cannot be added to a gallery.", ["submit it with Check", "export it"])
        require(role, ProjectRole.EDITOR, "add a plan to the gallery")

    def hand_in(self, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> str:
        graded = read_answer(GradedAnswer, message)
        with self._store.write() as session:
            verify_quotas(session, "answers.hand_in", guest.principal.user_id)
            answer = store_answer(session, source.room_id, guest.principal.user_id, graded)
            entry = {"user_id": guest.principal.user_id, "project_id": source.project_id, "subject": graded.question}
            session.add(AuditEntry(action="answers.hand_in", details={"room": source.room_id}, **entry))
            return "The deadline has passed: the answer is kept but does not count." if answer.late else ""

    def keep_card(self, source: RoomSource, message: Mapping[str, Any]) -> None:
        if source.exercise:
            with suppress(DatabaseProblemError):  # on a full disk the wall keeps an older card
                keep_card(self._store, source.room_id, message["card"], message["thumbnail"])

    def branch(self, source: RoomSource, guest: RoomGuest) -> str:
        """Copy the log to a new room and return its address. Raises `ForbiddenError` for viewers."""
        with self._store.write() as session:
            user = session.get_one(User, guest.principal.user_id)
            require(role_in_project(session, user, source.project_id), ProjectRole.EDITOR, "branch off")
            verify_quotas(session, "rooms.open", user.id)
            origin = session.get_one(StoredRoom, source.room_id)
            room_id = _copy_room(session, origin, guest)
        return f"{self._address}/room/{room_id}"

    def comments_of(self, source: RoomSource) -> str:
        return f"{urlsplit(self._address).path}/api/v1/rooms/{source.room_id}/comments"

    def gallery_of(self, source: RoomSource) -> str:
        return f"{self._address}/p/{source.project}/{f'assignments/{source.assignment}' if source.assignment else ''}"


@contextmanager
def _telling(guest: RoomGuest, title: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001
        show_notice(guest.screen, title, problem_text(error))


def save_plan(actions: StoredRoomActions, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> None:
    with _telling(guest, "This plan was not added to the gallery"):
        place, text = actions.save(source, guest, message), f"This plan is in the gallery of {source.project}."
        show_notice(guest.screen, "In the gallery", text, [["open", "Show it", place]], good=True)


def hand_in_answer(actions: StoredRoomActions, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> None:
    if guest.is_participant:
        with _telling(guest, _NOT_COUNTED):
            if problem := actions.hand_in(source, guest, message["answered"]):
                show_notice(guest.screen, _NOT_COUNTED, problem)


def branch_off(actions: StoredRoomActions, source: RoomSource, guest: RoomGuest) -> None:
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
    """Add a gallery entry unless the user saved this plan before. Raises `ConflictError` at the quota."""
    author = guest.principal.user_id
    conditions = (GalleryEntry.room_id == source.room_id, GalleryEntry.digest == digest, GalleryEntry.author_id == author)
    if session.scalars(select(GalleryEntry).where(*conditions, GalleryEntry.withdrawn.is_(None)).limit(1)).first() is not None:
        return
    verify_quotas(session, "plans.push", author)
    references = {"project_id": source.project_id, "author_id": author, "room_id": source.room_id}
    entry = GalleryEntry(digest=digest, name=name or source.name, **references)
    session.add(entry)
    session.flush()
    details = {"project": source.project, "room": source.room_id, "digest": digest}
    session.add(AuditEntry(user_id=author, action="plans.save", subject=entry.id, details=details))


class RoomRuns:
    """The runs of a room: `find` returns a visitor's guest, `tell` informs the process, `say` the users."""

    def __init__(
        self,
        source: RoomSource,
        actions: StoredRoomActions,
        find: Callable[[int], RoomGuest | None],
        tell: Callable[[Mapping[str, Any]], None],
        say: Callable[[str, str], None],
    ) -> None:
        self._source, self._actions, self._find, self._tell, self._say = source, actions, find, tell, say
        self._visitors: dict[int, int] = {}  # visitor by run number, of the current process
        self._hear = self._pass_on  # one bound method object, which identifies this listener
        self._last: threading.Thread | None = None

    def handle(self, message: Mapping[str, Any]) -> None:
        """Submit or cancel a run on a thread, in message order: a cancellation may come before the submission."""
        self._last = threading.Thread(target=self._handle_after, args=(self._last, message), daemon=True, name="job")
        self._last.start()

    def forget(self) -> None:
        """Stop following the jobs after the room's process ended; they continue."""
        if self._actions.jobs is not None:
            self._actions.jobs.forget(self._hear)
        self._visitors.clear()

    def _handle_after(self, before: threading.Thread | None, message: Mapping[str, Any]) -> None:
        if before is not None:
            before.join()
        self._handle(message)

    def _handle(self, message: Mapping[str, Any]) -> None:
        number = message.get("cancel", message.get("job"))
        guest = self._find(message["visitor"] if "run" in message else self._visitors.get(number, 0))
        if guest is None:
            return
        try:
            if "run" in message:
                self._visitors[number] = guest.number
                self._actions.run(self._source, guest, message, self._hear)
            elif self._actions.jobs is not None:
                self._actions.jobs.cancel(guest, number, self._hear)
        except Exception as error:  # noqa: BLE001 - the board waits for an answer
            self._pass_on({"job": number, "problem": as_problem(error)})

    def _pass_on(self, message: Mapping[str, Any]) -> None:
        self._tell(message)
        guest = self._find(self._visitors.get(message["job"], 0))
        if guest is not None and message.get("state") in ENDED:
            self._say(guest.principal.user_id, f"run {message['state']}; its figures are in the gallery")
