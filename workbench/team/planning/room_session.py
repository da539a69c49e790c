"""The shared session of a room, in which each user undoes only their own edits; and its users."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from workbench.errors import WorkbenchError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.session.plan_history import MOST_NAME, Listener, Session
from workbench.team.access import ProjectRole
from workbench.team.planning.room_edit_log import AddedEdit, RoomHistory, RoomLogRecord
from workbench.team.rooms.room_records import EVERYBODY
from workbench.widgets.shared_states import Defer, at_once


@dataclass(frozen=True, slots=True)
class RoomPerson:
    """A user in a room.

    `user_id` is the name in the log, `display` the one that colleagues see. `role` is that of the project or of the
    link. A participant works on an assignment in this room; a student has access to the project only for assignments.
    """

    user_id: str
    display: str
    role: ProjectRole = ProjectRole.VIEWER
    is_participant: bool = False
    is_student: bool = False

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> "RoomPerson":
        flags = (bool(message.get(name)) for name in ("participant", "student"))
        return cls(message["user_id"], message["display"], ProjectRole(message["role"]), *flags)

    def verify(self, needed: ProjectRole, to_do: str) -> None:
        if self.role < needed:
            raise WorkbenchError(
                f"To {to_do} takes the role {needed} in this project; yours is {self.role}.",
                ["ask an owner of the project", "export the plan and continue in your own workbench"],
            )


NOBODY = RoomPerson("", "The workbench", ProjectRole.OWNER)
"""The actor when no user acts: in log replays and for answers of XLA's partitioner."""


KeepRecord = Callable[[RoomLogRecord, Plan], None]
"""Stores a log entry with the plan after it; if it raises, the change is undone."""
MOST_RECENT = 200  # edits that a late gesture is compared with


@dataclass(frozen=True, slots=True)
class RecentEdit:
    """An edit made while this process runs: the session's `revision`, the user, and the time in monotonic seconds."""

    revision: int
    person: RoomPerson
    edit: Edit
    at: float


class RoomSession(Session):
    """A session whose actor is set by `acting(person)`. Each change is passed to `keep(record, plan)` before listeners
    are called.

    A listener is called as the person who acted when it was added, so that `can_undo` is that person's. The actor's
    listeners are called immediately, the others' through `defer(work)` or before they act themselves. Viewers cannot
    edit.
    """

    @classmethod
    def begin(cls, history: RoomHistory, keep: KeepRecord, defer: Defer = at_once) -> "RoomSession":
        """Create the session of a history; only the present plan is analyzed."""
        session = cls.from_history(history.nodes, history.head, {}, {})
        assert isinstance(session, RoomSession)
        session._history, session._keep, session._defer = history, keep, defer  # noqa: SLF001 - an instance of this class
        return session

    def _set_up(self, *arguments: Any) -> None:
        self._acting: RoomPerson = NOBODY
        self._saw: int | None = None
        self.edit_under_way: Edit | None = None
        self._keep: KeepRecord = lambda _record, _plan: None
        self.recent: list[RecentEdit] = []
        self._defer: Defer = at_once
        self._overdue: dict[Callable[[], None], RoomPerson] = {}
        super()._set_up(*arguments)
        self._history = RoomHistory(tuple(self._nodes), ("",) * len(self._nodes), self._now)

    @property
    def acting_person(self) -> RoomPerson:
        return self._acting

    @contextmanager
    def acting(self, person: RoomPerson, saw: int | None = None) -> Iterator[None]:
        """Set the actor inside the context, who saw revision `saw` of the session, if known."""
        previous = self._acting, self._saw
        self._acting, self._saw = person, saw
        try:
            for call in [call for call, listening in self._overdue.items() if listening.user_id == person.user_id]:
                call()
            yield
        finally:
            self._acting, self._saw = previous

    @property
    def authors(self) -> Sequence[str]:
        return self._history.authors

    @property
    def can_undo(self) -> bool:
        return self._history.last_edit_of(self._acting.user_id) is not None

    @property
    def can_redo(self) -> bool:
        return bool(self._history.undone.get(self._acting.user_id))

    @property
    def undoable(self) -> Edit | None:
        number = self._history.last_edit_of(self._acting.user_id)
        return None if number is None else self._nodes[number].edit

    @property
    def undone(self) -> Edit | None:
        return self._nodes[self._history.undone[self._acting.user_id][-1]].edit if self.can_redo else None

    def apply(self, edit: Edit) -> Report:
        """Make an edit; raises its `WorkbenchError` and changes nothing if the plan would be illegal."""
        self._verify_may_edit()
        report = self._foresee_for_person(edit)
        number = len(self._nodes)
        record, added = RoomLogRecord("edit", self._acting.user_id, {}), [AddedEdit(self._now, edit, self._acting.user_id)]
        self.edit_under_way = edit
        try:
            result = self._move_to(record, added, number, report)
        finally:
            self.edit_under_way = None
        self._foreseen = []
        self.recent.append(RecentEdit(self.revision, self._acting, edit, time.monotonic()))
        del self.recent[:-MOST_RECENT]
        return result

    def push(self, edit: Edit) -> Report:
        self._verify_may_edit()
        report = self.foresee(edit)
        record, added = RoomLogRecord("push", self._acting.user_id, {}), [AddedEdit(self._now, edit, EVERYBODY)]
        result = self._move_to(record, added, len(self._nodes), report)
        self._foreseen = []
        return result

    def undo(self) -> Report:
        """Undo the user's last edit, replaying later ones on a new branch. Raises `WorkbenchError`."""
        self._verify_may_edit()
        last_edit = self._history.last_edit_of(self._acting.user_id)
        if last_edit is None:
            return self._report
        path = self._history.path()
        parent = self._nodes[last_edit].parent
        assert parent is not None, "only an edit has an author"
        added: list[AddedEdit] = []
        head = parent
        for number in path[path.index(last_edit) + 1 :]:
            added.append(AddedEdit(head, self._edit_of(number), self.authors[number]))
            head = len(self._nodes) + len(added) - 1
        try:
            return self._move_to(RoomLogRecord("undo", self._acting.user_id, {"undone": last_edit}), added, head)
        except WorkbenchError as error:
            text = f"`{self._edit_of(last_edit)}` cannot be undone alone: later edits depend on it. {error.message}"
            raise WorkbenchError(text, ["undo later edits first", "go to an earlier plan in the history"]) from None

    def redo(self) -> Report:
        self._verify_may_edit()
        if not self.can_redo:
            return self._report
        number = self._history.undone[self._acting.user_id][-1]
        record = RoomLogRecord("redo", self._acting.user_id, {"redone": number})
        if self._nodes[number].parent == self._now:
            return self._move_to(record, [], number)
        return self._move_to(record, [AddedEdit(self._now, self._edit_of(number), self._acting.user_id)], len(self._nodes))

    def go(self, number: int) -> Report:
        self._verify_may_edit()
        return self._move_to(RoomLogRecord("go", self._acting.user_id, {}), [], self._find_node(number).number)

    def name(self, number: int, name: str) -> None:
        self._mark(RoomLogRecord("name", self._acting.user_id, {"node": number, "name": " ".join(name.split())[:MOST_NAME]}))

    def pin(self, number: int, pinned: bool = True) -> None:
        self._mark(RoomLogRecord("pin", self._acting.user_id, {"node": number, "pinned": bool(pinned)}))

    def listen(self, listener: Listener) -> Callable[[], None]:
        person = self._acting

        def call() -> None:
            if self._overdue.pop(call, None) is not None:
                with self.acting(person):
                    listener(self.plan, self.report)

        def listen_as(_plan: Plan, _report: Report) -> None:
            is_known, self._overdue[call] = call in self._overdue, person
            if person.user_id == self._acting.user_id or NOBODY in (person, self._acting):
                call()
            elif not is_known:
                self._defer(call)

        stop_listening = super().listen(listen_as)

        def stop() -> None:
            self._overdue.pop(call, None)
            stop_listening()

        return stop

    def unseen_edits(self) -> list[RecentEdit]:
        """Return others' edits after the revision that the actor saw, oldest first; empty if it is unknown."""
        if self._saw is None:
            return []
        return [recent for recent in self.recent if recent.revision > self._saw and recent.person.user_id != self._acting.user_id]

    def words_of(self, record: RoomLogRecord) -> str:
        return self._history.words_of(record)

    def _foresee_for_person(self, edit: Edit) -> Report:
        try:
            return self.foresee(edit)
        except WorkbenchError as error:
            if not (unseen := self.unseen_edits()):
                raise
            last = unseen[-1]
            ago = max(time.monotonic() - last.at, 0.0)
            text = f"{error.message} {last.person.display} made the edit `{last.edit}` {ago:.0f} s ago, before you saw it."
            raise WorkbenchError(text, error.ways_out) from None

    def _verify_may_edit(self) -> None:
        self._acting.verify(ProjectRole.EDITOR, "edit this plan")

    def _edit_of(self, number: int) -> Edit:
        edit = self._nodes[number].edit
        assert edit is not None, "only the first plan has none"
        return edit

    def _mark(self, record: RoomLogRecord) -> None:
        self._verify_may_edit()
        self._find_node(record.body["node"])
        history = self._history.marked(record)
        self._keep(record, self.plan)
        self._take_over(history)
        self._notify()

    def _move_to(self, record: RoomLogRecord, added: Sequence[AddedEdit], head: int, known: Report | None = None) -> Report:
        """Add edits and go to a plan, atomically, as one log entry. `known` is the report of the result, if any."""
        body = {**record.body, "added": [addition.as_record() for addition in added], "head": head}
        entry, previous = RoomLogRecord(record.kind, record.author, body), self._history
        history = previous.extended(entry, added, head)
        if known is not None:
            history = replace(history, nodes=(*history.nodes[:head], replace(history.nodes[head], plan=known.plan)))
            self._store_report(head, known)
        self._take_over(history)
        try:
            self.report_of(head)  # analyzed before it is stored, so that a failing plan does not enter the history
            self._keep(entry, history.nodes[head].plan)
        except BaseException:
            self._take_over(previous)
            if head >= len(previous.nodes):
                self._forget_report(head)  # the number will be reused by another plan
            raise
        return self._move(head)

    def _take_over(self, history: RoomHistory) -> None:
        self._history, self._nodes = history, list(history.nodes)

    def _forget_report(self, number: int) -> None:
        self._reports.pop(number, None)
        self._summaries.pop(number, None)
