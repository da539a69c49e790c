"""The history of a room: one session that several people edit, each of whom undoes only what they did themselves; and
those people as its process knows them."""

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
    """`user_id` is what the log names; `display` is what colleagues read. The role is that in the room's project, or of the link by which
    the person came; `is_participant` is who works on an assignment in this room, `is_student` who is in the project for the sake of
    assignments alone."""

    user_id: str
    display: str
    role: ProjectRole = ProjectRole.VIEWER
    is_participant: bool = False
    is_student: bool = False

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> "RoomPerson":
        """The person in a message of the server."""
        flags = (bool(message.get(name)) for name in ("participant", "student"))
        return cls(message["user_id"], message["display"], ProjectRole(message["role"]), *flags)

    def verify(self, needed: ProjectRole, to_do: str) -> None:
        """Raises `WorkbenchError` if the role is not enough."""
        if self.role < needed:
            raise WorkbenchError(
                f"To {to_do} takes the role {needed} in this project; yours is {self.role}.",
                ["ask an owner of the project", "export the plan and continue in your own workbench"],
            )


NOBODY = RoomPerson("", "The workbench", ProjectRole.OWNER)
"""Who acts when no person does: a log that is replayed, an answer of XLA's partitioner."""


KeepRecord = Callable[[RoomLogRecord, Plan], None]
"""Keeps an entry of the log, given the plan that is present after it; it may raise, and then nothing has happened."""
MOST_RECENT = 200  # edits that a late hand is compared with


@dataclass(frozen=True, slots=True)
class RecentEdit:
    """An edit that was made while the room's process ran: at which `revision` of the session, by whom, and when (monotonic seconds)."""

    revision: int
    person: RoomPerson
    edit: Edit
    at: float


class RoomSession(Session):
    """A session in which `acting(person)` says who acts. Each change is given to `keep(record, plan)` before any listener is called.

    A listener is called as the person who acted when it was added: `can_undo` is then that person's. Who acts is called at once, and is
    answered; the others after that, when `defer(work)` does it, or before they act themselves. Those who may only look are refused.
    """

    @classmethod
    def begin(cls, history: RoomHistory, keep: KeepRecord, defer: Defer = at_once) -> "RoomSession":
        """The session of a room's history; only the present plan is analysed."""
        session = cls.from_history(history.nodes, history.head, {}, {})
        assert isinstance(session, RoomSession)
        session._history, session._keep, session._defer = history, keep, defer  # noqa: SLF001 - its own
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
        """Meanwhile it is this person who acts, having seen the session at revision `saw`, if that is known."""
        before = self._acting, self._saw
        self._acting, self._saw = person, saw
        try:
            for call in [call for call, whose in self._overdue.items() if whose.user_id == person.user_id]:
                call()
            yield
        finally:
            self._acting, self._saw = before

    @property
    def authors(self) -> Sequence[str]:
        """Who made each plan of the history, by number; the first is nobody's."""
        return self._history.authors

    @property
    def can_undo(self) -> bool:
        return self._history.last_edit_of(self._acting.user_id) is not None

    @property
    def can_redo(self) -> bool:
        return bool(self._history.undone.get(self._acting.user_id))

    @property
    def undoable(self) -> Edit | None:
        mine = self._history.last_edit_of(self._acting.user_id)
        return None if mine is None else self._nodes[mine].edit

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
            shown = self._move_to(record, added, number, report)
        finally:
            self.edit_under_way = None
        self._foreseen = []
        self.recent.append(RecentEdit(self.revision, self._acting, edit, time.monotonic()))
        del self.recent[:-MOST_RECENT]
        return shown

    def push(self, edit: Edit) -> Report:
        """Make an edit that comes from outside of the room: whoever edits here may take it back as their own."""
        self._verify_may_edit()
        report = self.foresee(edit)
        record, added = RoomLogRecord("push", self._acting.user_id, {}), [AddedEdit(self._now, edit, EVERYBODY)]
        shown = self._move_to(record, added, len(self._nodes), report)
        self._foreseen = []
        return shown

    def undo(self) -> Report:
        """Take back the person's own last edit: those that came after it are made again without it, on a branch of their own.

        Raises `WorkbenchError` if one of them would be illegal then.
        """
        self._verify_may_edit()
        mine = self._history.last_edit_of(self._acting.user_id)
        if mine is None:
            return self._report
        path = self._history.path()
        parent = self._nodes[mine].parent
        assert parent is not None, "only an edit has an author"
        added: list[AddedEdit] = []
        head = parent
        for number in path[path.index(mine) + 1 :]:
            added.append(AddedEdit(head, self._edit_of(number), self.authors[number]))
            head = len(self._nodes) + len(added) - 1
        try:
            return self._move_to(RoomLogRecord("undo", self._acting.user_id, {"undone": mine}), added, head)
        except WorkbenchError as error:
            text = f"`{self._edit_of(mine)}` cannot be undone alone: later edits depend on it. {error.message}"
            raise WorkbenchError(text, ["undo later edits first", "go to an earlier plan in the history"]) from None

    def redo(self) -> Report:
        """Make the edit again that the person undid last."""
        self._verify_may_edit()
        if not self.can_redo:
            return self._report
        number = self._history.undone[self._acting.user_id][-1]
        record = RoomLogRecord("redo", self._acting.user_id, {"redone": number})
        if self._nodes[number].parent == self._now:
            return self._move_to(record, [], number)
        return self._move_to(record, [AddedEdit(self._now, self._edit_of(number), self._acting.user_id)], len(self._nodes))

    def go(self, number: int) -> Report:
        """Go to any plan of the history, and all in the room with it."""
        self._verify_may_edit()
        return self._move_to(RoomLogRecord("go", self._acting.user_id, {}), [], self._find_node(number).number)

    def name(self, number: int, name: str) -> None:
        """Name a plan of the history, or remove its name with an empty one."""
        self._mark(RoomLogRecord("name", self._acting.user_id, {"node": number, "name": " ".join(name.split())[:MOST_NAME]}))

    def pin(self, number: int, pinned: bool = True) -> None:
        """Pin a plan of the history."""
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
        """The edits that others made after what the acting person saw, oldest first; none where that is not known."""
        if self._saw is None:
            return []
        return [each for each in self.recent if each.revision > self._saw and each.person.user_id != self._acting.user_id]

    def words_of(self, record: RoomLogRecord) -> str:
        """What an entry of the log did, for colleagues: `d_ff → model`, or `took back d_ff → model`."""
        return self._history.words_of(record)

    def _foresee_for_person(self, edit: Edit) -> Report:
        """As `foresee`; a refusal says what others did that the person has not seen."""
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
        """Go to a plan, with these edits added to the history, as one entry of the log: all of it, or nothing. `known` is the report of the
        plan that they make, if there is one."""
        body = {**record.body, "added": [each.as_record() for each in added], "head": head}
        whole, before = RoomLogRecord(record.kind, record.author, body), self._history
        history = before.extended(whole, added, head)
        if known is not None:
            history = replace(history, nodes=(*history.nodes[:head], replace(history.nodes[head], plan=known.plan)))
            self._store_report(head, known)
        self._take_over(history)
        try:
            self.report_of(head)  # analysed before it is kept: one that cannot be is no plan of the history
            self._keep(whole, history.nodes[head].plan)
        except BaseException:
            self._take_over(before)
            if head >= len(before.nodes):
                self._forget_report(head)  # the next plan of that number is another
            raise
        return self._move(head)

    def _take_over(self, history: RoomHistory) -> None:
        self._history, self._nodes = history, list(history.nodes)

    def _forget_report(self, number: int) -> None:
        self._reports.pop(number, None)
        self._summaries.pop(number, None)
