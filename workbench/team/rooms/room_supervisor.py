"""An open room: its process and its users' pages. A process that dies is replaced by one that replays the log."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from workbench.app.runners.job_queue import JobQueue
from workbench.errors import WorkbenchError
from workbench.team.access import ForbiddenError, Principal, ProjectRole, require
from workbench.team.rooms import room_notices
from workbench.team.rooms.planners import Planners
from workbench.team.rooms.presence import RoomPresence, gesture_of_request, gestures_to_follow, held_dimension, leader_for
from workbench.team.rooms.room_connection import Hear, RoomConnection
from workbench.team.rooms.room_records import (
    PushedPlan,
    RoomSource,
    append_entry,
    last_push,
    participation_of,
    read_comments,
    read_room,
    verify_entry,
)
from workbench.team.rooms.stored_room_actions import RoomRuns, StoredRoomActions, branch_off, hand_in_answer, save_plan
from workbench.team.store.database_errors import as_database_problem
from workbench.team.store.store import Store

PATIENCE, LIMIT, OPENING = 3.0, 120.0, 120.0
"""Seconds until users see that the room is busy, until its work is stopped, and until opening it is aborted."""
MOST_DEATHS, WITHIN = 3, 60.0
"""Number of deaths within this many seconds after which the room's process is not restarted automatically."""

_STOPPED = "A person stopped its current task"
_TOO_SLOW = f"Its current task took longer than {LIMIT:.0f} s and was stopped"
_TAKEN_BACK = "You no longer have access to this room: your role was removed, or the room was closed."


class OpenRoom:
    """An open room. Thread-safe: pages run on the server's event loop, messages of the process arrive on a thread."""

    def __init__(
        self, source: RoomSource, store: Store, planners: Planners, queue: JobQueue, actions: StoredRoomActions, time_limit: float
    ) -> None:
        self.source = source
        self.is_closed = False
        self.left_at: float | None = time.monotonic()
        self._store, self._planners, self._queue, self._actions, self._time_limit = store, planners, queue, actions, time_limit
        self._lock = threading.RLock()
        self._guests: dict[int, room_notices.RoomGuest] = {}
        self._editors: set[str] = set()  # IDs of users who may have edited during the current process; some have left
        self._last_word = ""
        self._connection: RoomConnection | None = None
        self.total_deaths = 0  # process deaths
        self._deaths: list[float] = []
        self._stopped = ""
        self._number = 0
        self._head = 0
        self._deadline = source.deadline, source.until
        self._sent = self._pushed = "", ""  # sender and description of the plan being sent, and of the one sent last without later changes
        self._comments = read_comments(store, source.room_id)
        self.presence = RoomPresence(self._show_presence)
        self._runs = RoomRuns(source, actions, self._guests.get, self._send, self.presence.say)
        requests = {"save": self._for_guest(save_plan), "answered": self._for_guest(hand_in_answer)}
        cards = {"card": lambda message: actions.keep_card(source, message)}
        self._hears = {"show": self._show, "view": self._see, **requests, **cards, "run": self._runs.handle, "cancel": self._runs.handle}
        self._begin("")

    def enter(self, principal: Principal, role: ProjectRole, screen: room_notices.RoomScreen) -> int | None:
        """Add a page and return its visitor number, or `None` if the empty room was ended at this moment."""
        with self._lock:
            if self.is_closed and not self._last_word:
                return None
            self._number += 1
            guest = room_notices.RoomGuest(self._number, principal, role, screen, *participation_of(self._store, principal, self.source))
            self._guests[guest.number], self.left_at = guest, None
            if self.is_closed:
                room_notices.show_failure(screen, self._last_word)
                return guest.number
            screen.hear = lambda message: self._hear(guest, message)
            self._note_editor(guest)
            self.presence.enter(guest.number, principal.user_id, principal.display, str(role))
            self._send(guest.entering())
            self._tell_pushed(guest)
            return guest.number

    def leave(self, number: int) -> None:
        with self._lock:
            if self._guests.pop(number, None) is None:
                return
            self.presence.leave(number)
            self._send({"leave": True, "visitor": number})
            if not self._guests:
                self.left_at = time.monotonic()

    def guests(self) -> list[room_notices.RoomGuest]:
        with self._lock:
            return list(self._guests.values())

    def set_role(self, number: int, role: ProjectRole | None) -> None:
        with self._lock:
            guest = self._guests.get(number)
            if guest is None or guest.role is role:
                return
            if role is None:
                guest.screen.hear = lambda _message: None
                self.leave(number)
                room_notices.show_failure(guest.screen, _TAKEN_BACK)
                return
            guest.role = role
            self._note_editor(guest)
            self.presence.update(number, role=str(role))
            self._send({"role": int(role), "visitor": number})

    def push(self, pushed: PushedPlan) -> bool:
        """Send a plan to the room; returns false while no process can take it."""
        with self._lock:
            if self._connection is None or self.is_closed:
                return False
            self._editors.add(pushed.sender.user_id)
            self._sent = pushed.sender.display, pushed.source
            self._connection.send(pushed.message())
            return True

    def _tell_pushed(self, guest: room_notices.RoomGuest) -> None:
        if self._pushed[0] and guest.is_participant:
            room_notices.notify_pushed_plan(guest.screen, *self._pushed)

    def read_again(self) -> None:
        with suppress(WorkbenchError):  # the room was closed
            source = read_room(self._store, self.source.room_id, with_log=False)
            self._deadline = source.deadline, source.until
        self._comments = read_comments(self._store, self.source.room_id)
        self.presence.changed()

    def look(self) -> None:
        """Update presence and stop work that takes too long; called every second."""
        for guest in self.guests():
            if guest.screen.is_watched():
                self.presence.touch(guest.number)
        self.presence.note_time()
        connection = self._connection
        seconds = connection.busy_for() if connection else 0.0
        if seconds > LIMIT:
            self._stop(_TOO_SLOW)
            return
        for guest in self.guests():
            guest.screen.show_busy(seconds if seconds > PATIENCE else 0.0)

    def missing_seconds(self) -> float:
        with self._lock:
            is_missing = self._connection is None and self._deaths and not self.is_closed
            return time.monotonic() - self._deaths[-1] if is_missing else 0.0

    def close(self, text: str = "") -> None:
        """End the process; a text replaces the board on every page."""
        with self._lock:
            self.is_closed, self._last_word = True, text
            if self._connection:
                self._connection.close()
            for guest in self._guests.values():
                guest.screen.hear = lambda _message: None
                if text:
                    room_notices.show_failure(guest.screen, text)

    def _keep(self, message: Mapping[str, Any]) -> None:
        entry = message["log"]
        verify_entry(entry, self._editors)
        append_entry(self._store, self.source.room_id, entry, message["digest"])
        self._head = entry["body"].get("head", self._head)
        self.presence.note_move(entry["author"], str(message.get("moves", ""))[:80])
        self.presence.say(entry["author"], message["says"], self._sent[0] if entry["kind"] == "push" else "")
        self._note_push(entry["kind"])
        for conflict in message["conflicts"]:
            room_notices.notify_conflict(self.guests(), entry["author"], message["says"], conflict)

    def _note_push(self, kind: str) -> None:
        self._pushed = self._sent if kind == "push" else ("", "")
        for guest in self.guests():
            self._tell_pushed(guest)

    def _show(self, message: Mapping[str, Any]) -> None:
        guest, target, parameters = self._guests.get(message["visitor"]), message["show"], message["parameters"]
        if guest is not None:
            allowed = parameters if self.source.program is None else room_notices.verify_shown(target, parameters)
            guest.screen.show("board" if target == "board" else "bridge", allowed)

    def _for_guest(self, act: Callable[[StoredRoomActions, RoomSource, room_notices.RoomGuest, Mapping[str, Any]], None]) -> Hear:
        def hear(message: Mapping[str, Any]) -> None:
            if (guest := self._guests.get(message["visitor"])) is not None:
                act(self._actions, self.source, guest, message)

        return hear

    def _see(self, message: Mapping[str, Any]) -> None:
        visitor, view = message["visitor"], message["view"]
        if self.presence.update(visitor, tab=str(view["tab"])[:80], selected=str(view["selected"])[:2000]) is not None:
            for person in self.presence.people():
                if person.following == visitor:
                    self._lead(person.visitor, visitor)

    def _ended(self, connection: RoomConnection) -> None:
        reason = self._stopped or self._reason(connection)
        lost = "so the last edit may be lost" if connection.failure is None else "so it was not applied"
        failure = as_database_problem(connection.failure) or connection.failure
        details = f" {failure.message}" if isinstance(failure, WorkbenchError) else ""
        self._runs.forget()
        with self._lock:
            self._connection = None
            self.total_deaths += 1
            deaths = self._note_death(connection)
            if self.is_closed:
                return
            if deaths >= MOST_DEATHS:
                self.close(f"{reason}; this happened {MOST_DEATHS} times within {WITHIN:.0f} s.{details} Reload the page to try again.")
                return
            if not self._guests:
                self.close()
                return
        self._begin(f"{reason}, {lost}. Everything before it is here.{details}")

    def _note_death(self, connection: RoomConnection) -> int:
        """Return the number of recent deaths, without stops by users; processes that never opened always count."""
        now, was_open = time.monotonic(), connection.opened.done() and not connection.opened.cancelled()
        if self._stopped != _STOPPED:
            self._deaths = [*(death for death in self._deaths if now - death < WITHIN or not was_open), now]
        self._stopped = ""
        return len(self._deaths)

    def _reason(self, connection: RoomConnection) -> str:
        if connection.failure is not None:
            return "The last edit could not be stored"
        return f"The process of this room {connection.planner.reason(connection.pid)}"

    def _begin(self, died: str) -> None:
        """Start a process in a thread, because the server's first one takes a moment."""
        threading.Thread(target=self._open, args=(died,), daemon=True, name="room").start()

    def _open(self, died: str) -> None:
        try:
            source = read_room(self._store, self.source.room_id)
            self._head, self._pushed = source.head, last_push(self._store, source)
            connection = RoomConnection(self._planners.connect(source.program), self._queue, self._keep, self._hears, self._ended)
        except Exception as error:  # noqa: BLE001 - visitors wait for an answer
            self.close(room_notices.problem_text(error))
            return
        connection.send({"room": {**source.message(), "time_limit": self._time_limit}})
        try:
            problem = connection.opened.result(OPENING)
        except CancelledError:  # the process died, and `_ended` starts another
            return
        except TimeoutError:
            self.close(f"Opening this room took longer than {OPENING:g} s and was stopped. Reload the page to try again.")
            connection.kill()
            return
        if problem is not None:
            connection.close()
            self.close(str(WorkbenchError(problem["message"], problem["ways_out"])))
            return
        self._connect_guests(connection, died)

    def _connect_guests(self, connection: RoomConnection, died: str) -> None:
        with self._lock:
            if self.is_closed or connection.is_closed:  # the process just died, and `_ended` starts another
                connection.close()
                return
            self._connection, self._editors = connection, set()
            for guest in self._guests.values():
                self._note_editor(guest)
                connection.send(guest.entering())
                self._tell_pushed(guest)
                if died:
                    room_notices.show_notice(guest.screen, "The room was restarted", died)

    def _note_editor(self, guest: room_notices.RoomGuest) -> None:
        """Remember an editor, because their edits may arrive after they leave or lose the role."""
        if guest.role >= ProjectRole.EDITOR:
            self._editors.add(guest.principal.user_id)

    def _hear(self, guest: room_notices.RoomGuest, message: Mapping[str, Any]) -> None:
        heard = message.get("heard", {})
        if heard.get("kind") == "stop":
            self._stop_for(guest)
        elif heard.get("kind") == "follow":
            self._follow(guest.number, heard.get("visitor"))
        elif heard.get("kind") == "branch":
            threading.Thread(target=branch_off, args=(self._actions, self.source, guest), daemon=True, name="branch").start()
        elif (gesture := gesture_of_request(heard)) is not None:
            self._send({"gesture": gesture, "visitor": guest.number})
        elif "gesture" in message or "heard" in message:
            self.presence.touch(guest.number)
            self.presence.hold(guest.number, held_dimension(message.get("gesture", {})))
            self._send({**message, "visitor": guest.number})

    def _follow(self, visitor: int, leader: object) -> None:
        chosen = leader_for(self.presence, visitor, leader)
        self.presence.update(visitor, following=chosen)
        self._lead(visitor, chosen)

    def _lead(self, follower: int, leader: int) -> None:
        own_view, leader_view = self.presence.person(follower), self.presence.person(leader)
        for gesture in gestures_to_follow(own_view, leader_view) if own_view and leader_view else ():
            self._send({"gesture": gesture, "visitor": follower})

    def _show_presence(self) -> None:
        shared = {**self.presence.state(), "name": self.source.name, "project": self.source.project, "head": self._head}
        shared |= {"deadline": self._deadline[0], "until": self._deadline[1]}
        places = {"gallery": self._actions.gallery_of(self.source), "comments_at": self._actions.comments_of(self.source)}
        for guest in self.guests():
            comments = [comment.as_state(guest.principal.user_id) for comment in self._comments]
            personal = {"you": guest.number, "edits": guest.role >= ProjectRole.EDITOR, "branches": guest.may_branch, "comments": comments}
            guest.screen.show_room({**shared, **places, **personal})

    def _send(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            if self._connection:
                self._connection.send(message)  # otherwise guests are announced when a process starts

    def _stop_for(self, guest: room_notices.RoomGuest) -> None:
        try:
            require(guest.role, ProjectRole.EDITOR, "stop the current task of a room")
        except ForbiddenError as error:
            room_notices.show_notice(guest.screen, "It goes on", str(error))
        else:
            self._stop(_STOPPED)

    def _stop(self, reason: str) -> None:
        with self._lock:
            if self._connection:
                self._stopped = reason
                self._connection.kill()
