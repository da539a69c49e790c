"""A room that people are in: its process, and the pages that show it. A process that dies is replaced by one that replays the log."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from workbench.app.runners.job_queue import JobQueue
from workbench.errors import WorkbenchError
from workbench.team.access import ForbiddenError, Principal, ProjectRole, require
from workbench.team.rooms.planners import Planners
from workbench.team.rooms.presence import RoomPresence, asked_gesture, gestures_of_following, held_dimension, leader_for
from workbench.team.rooms.room_connection import Hear, RoomConnection
from workbench.team.rooms.room_notices import (
    RoomGuest,
    RoomScreen,
    problem_text,
    show_failure,
    show_notice,
    tell_conflict,
    tell_pushed,
    verify_shown,
)
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
from workbench.team.rooms.room_runs import RoomRuns
from workbench.team.rooms.stored_room_actions import StoredRoomActions, branch_off, hand_in_answer, save_plan
from workbench.team.store.database_errors import as_database_problem
from workbench.team.store.store import Store

PATIENCE, LIMIT, OPENING = 3.0, 120.0, 120.0
"""Seconds until the people see that the room is busy, until its work is stopped, and until its opening is."""
MOST_DEATHS, WITHIN = 3, 60.0
"""A room whose process dies so often within so many seconds is not started again by itself."""

_STOPPED = "A person stopped its current task"
_TOO_SLOW = f"Its current task took longer than {LIMIT:.0f} s and was stopped"
_TAKEN_BACK = "You no longer have access to this room: your role was removed, or the room was closed."


class OpenRoom:
    """Thread-safe: pages are of the server's event loop, what the process says comes on a thread."""

    def __init__(
        self, source: RoomSource, store: Store, planners: Planners, queue: JobQueue, actions: StoredRoomActions, time_limit: float
    ) -> None:
        self.source = source
        self.is_closed = False
        self.left_at: float | None = time.monotonic()
        self._store, self._planners, self._queue, self._actions, self._time_limit = store, planners, queue, actions, time_limit
        self._lock = threading.RLock()
        self._guests: dict[int, RoomGuest] = {}
        self._editors: set[str] = set()  # ids of those who may have edited while the present process ran; some have left
        self._last_word = ""
        self._connection: RoomConnection | None = None
        self.total_deaths = 0  # of its processes
        self._deaths: list[float] = []
        self._stopped = ""
        self._number = 0
        self._head = 0
        self._deadline = source.deadline, source.until
        self._sent = self._pushed = "", ""  # by whom and what: on its way into the room, and in it as long as nothing was done since
        self._comments = read_comments(store, source.room_id)
        self.presence = RoomPresence(self._show_presence)
        self._runs = RoomRuns(source, actions, self._guests.get, self._send, self.presence.say)
        asked = {"save": self._for_guest(save_plan), "answered": self._for_guest(hand_in_answer)}
        cards = {"card": lambda message: actions.keep_card(source, message)}
        self._hears = {"show": self._show, "view": self._see, **asked, **cards, "run": self._runs.handle, "cancel": self._runs.handle}
        self._begin("")

    def enter(self, principal: Principal, role: ProjectRole, screen: RoomScreen) -> int | None:
        """Somebody opens the page; the number of the visitor. None if the room was ended meanwhile, for nobody was in it."""
        with self._lock:
            if self.is_closed and not self._last_word:
                return None
            self._number += 1
            guest = RoomGuest(self._number, principal, role, screen, *participation_of(self._store, principal, self.source))
            self._guests[guest.number], self.left_at = guest, None
            if self.is_closed:
                show_failure(screen, self._last_word)
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

    def guests(self) -> list[RoomGuest]:
        with self._lock:
            return list(self._guests.values())

    def set_role(self, number: int, role: ProjectRole | None) -> None:
        """Somebody's role is another now; without one the page shows the room no more."""
        with self._lock:
            guest = self._guests.get(number)
            if guest is None or guest.role is role:
                return
            if role is None:
                guest.screen.hear = lambda _message: None
                self.leave(number)
                show_failure(guest.screen, _TAKEN_BACK)
                return
            guest.role = role
            self._note_editor(guest)
            self.presence.update(number, role=str(role))
            self._send({"role": int(role), "visitor": number})

    def push(self, pushed: PushedPlan) -> bool:
        """Send a plan into the room; false while there is no process that could take it."""
        with self._lock:
            if self._connection is None or self.is_closed:
                return False
            self._editors.add(pushed.sender.user_id)
            self._sent = pushed.sender.display, pushed.source
            self._connection.send(pushed.message())
            return True

    def _tell_pushed(self, guest: RoomGuest) -> None:
        if self._pushed[0] and guest.is_participant:
            tell_pushed(guest.screen, *self._pushed)

    def read_again(self) -> None:
        """Show the comments and the deadline that the store has now."""
        with suppress(WorkbenchError):  # it was closed
            source = read_room(self._store, self.source.room_id, with_log=False)
            self._deadline = source.deadline, source.until
        self._comments = read_comments(self._store, self.source.room_id)
        self.presence.changed()

    def look(self) -> None:
        """Called every second: who is still there, and whether the process is at one thing for too long."""
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
        """For how long people have waited for another process after the last one died; 0 where there is one."""
        with self._lock:
            is_missing = self._connection is None and self._deaths and not self.is_closed
            return time.monotonic() - self._deaths[-1] if is_missing else 0.0

    def close(self, text: str = "") -> None:
        """End the process; with a text every page shows that in place of the board."""
        with self._lock:
            self.is_closed, self._last_word = True, text
            if self._connection:
                self._connection.close()
            for guest in self._guests.values():
                guest.screen.hear = lambda _message: None
                if text:
                    show_failure(guest.screen, text)

    def _keep(self, message: Mapping[str, Any]) -> None:
        """Store an entry of the log, and tell the room of it."""
        entry = message["log"]
        verify_entry(entry, self._editors)
        append_entry(self._store, self.source.room_id, entry, message["digest"])
        self._head = entry["body"].get("head", self._head)
        self.presence.say(entry["author"], message["says"], self._sent[0] if entry["kind"] == "push" else "")
        self._note_push(entry["kind"])
        for conflict in message["conflicts"]:
            tell_conflict(self.guests(), entry["author"], message["says"], conflict)

    def _note_push(self, kind: str) -> None:
        self._pushed = self._sent if kind == "push" else ("", "")
        for guest in self.guests():
            self._tell_pushed(guest)

    def _show(self, message: Mapping[str, Any]) -> None:
        """Show parameters on a visitor's page."""
        guest, target, parameters = self._guests.get(message["visitor"]), message["show"], message["parameters"]
        if guest is not None:
            shown = parameters if self.source.program is None else verify_shown(target, parameters)
            guest.screen.show("board" if target == "board" else "bridge", shown)

    def _for_guest(self, act: Callable[[StoredRoomActions, RoomSource, RoomGuest, Mapping[str, Any]], None]) -> Hear:
        """Do what a visitor asks of the server around the room, as long as they are there."""

        def hear(message: Mapping[str, Any]) -> None:
            if (guest := self._guests.get(message["visitor"])) is not None:
                act(self._actions, self.source, guest, message)

        return hear

    def _see(self, message: Mapping[str, Any]) -> None:
        """What a visitor sees now; whoever follows them sees it too."""
        visitor, view = message["visitor"], message["view"]
        if self.presence.update(visitor, tab=str(view["tab"])[:80], selected=str(view["selected"])[:2000]) is not None:
            for person in self.presence.people():
                if person.following == visitor:
                    self._lead(person.visitor, visitor)

    def _ended(self, connection: RoomConnection) -> None:
        """The process died: another one replays the log, and says what happened."""
        reason = self._stopped or self._reason(connection)
        lost = "so the last edit may be lost" if connection.failure is None else "so it was not applied"
        failure = as_database_problem(connection.failure) or connection.failure
        why = f" {failure.message}" if isinstance(failure, WorkbenchError) else ""
        self._runs.forget()
        with self._lock:
            self._connection = None
            self.total_deaths += 1
            deaths = self._note_death(connection)
            if self.is_closed:
                return
            if deaths >= MOST_DEATHS:
                self.close(f"{reason}; this happened {MOST_DEATHS} times within {WITHIN:.0f} s.{why} Reload the page to try again.")
                return
            if not self._guests:
                self.close()
                return
        self._begin(f"{reason}, {lost}. Everything before it is here.{why}")

    def _note_death(self, connection: RoomConnection) -> int:
        """How often it died lately: what somebody stopped is not counted, and what never opened is not forgotten."""
        now, was_open = time.monotonic(), connection.opened.done() and not connection.opened.cancelled()
        if self._stopped != _STOPPED:
            self._deaths = [*(each for each in self._deaths if now - each < WITHIN or not was_open), now]
        self._stopped = ""
        return len(self._deaths)

    def _reason(self, connection: RoomConnection) -> str:
        if connection.failure is not None:
            return "Edit last could not be stored"
        return f"The process of this room {connection.planner.reason(connection.pid)}"

    def _begin(self, died: str) -> None:
        """Start a process in a thread: the first of a server takes a moment."""
        threading.Thread(target=self._open, args=(died,), daemon=True, name="room").start()

    def _open(self, died: str) -> None:
        try:
            source = read_room(self._store, self.source.room_id)
            self._head, self._pushed = source.head, last_push(self._store, source)
            connection = RoomConnection(self._planners.connect(source.program), self._queue, self._keep, self._hears, self._ended)
        except Exception as error:  # noqa: BLE001 - whatever failed, the people wait for a word
            self.close(problem_text(error))
            return
        connection.send({"room": {**source.message(), "time_limit": self._time_limit}})
        try:
            problem = connection.opened.result(OPENING)
        except CancelledError:  # it died, and `_ended` begins another
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
            if self.is_closed or connection.is_closed:  # it died in this moment, and `_ended` begins another
                connection.close()
                return
            self._connection, self._editors = connection, set()
            for guest in self._guests.values():
                self._note_editor(guest)
                connection.send(guest.entering())
                self._tell_pushed(guest)
                if died:
                    show_notice(guest.screen, "The room was started again", died)

    def _note_editor(self, guest: RoomGuest) -> None:
        """What somebody did is still under way when they leave, or may edit no more."""
        if guest.role >= ProjectRole.EDITOR:
            self._editors.add(guest.principal.user_id)

    def _hear(self, guest: RoomGuest, message: Mapping[str, Any]) -> None:
        heard = message.get("heard", {})
        if heard.get("kind") == "stop":
            self._stop_for(guest)
        elif heard.get("kind") == "follow":
            self._follow(guest.number, heard.get("visitor"))
        elif heard.get("kind") == "branch":
            threading.Thread(target=branch_off, args=(self._actions, self.source, guest), daemon=True, name="branch").start()
        elif (gesture := asked_gesture(heard)) is not None:
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
        """Open what the leader sees on the follower's board."""
        mine, theirs = self.presence.person(follower), self.presence.person(leader)
        for gesture in gestures_of_following(mine, theirs) if mine and theirs else ():
            self._send({"gesture": gesture, "visitor": follower})

    def _show_presence(self) -> None:
        shared = {**self.presence.state(), "name": self.source.name, "project": self.source.project, "head": self._head}
        shared |= {"deadline": self._deadline[0], "until": self._deadline[1]}
        places = {"gallery": self._actions.gallery_of(self.source), "comments_at": self._actions.comments_of(self.source)}
        for guest in self.guests():
            comments = [each.as_state(guest.principal.user_id) for each in self._comments]
            mine = {"you": guest.number, "edits": guest.role >= ProjectRole.EDITOR, "branches": guest.may_branch, "comments": comments}
            guest.screen.show_room({**shared, **places, **mine})

    def _send(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            if self._connection:
                self._connection.send(message)  # else the guests enter when there is a process

    def _stop_for(self, guest: RoomGuest) -> None:
        """It stops for all: a viewer does not."""
        try:
            require(guest.role, ProjectRole.EDITOR, "stop the current task of a room")
        except ForbiddenError as error:
            show_notice(guest.screen, "It goes on", str(error))
        else:
            self._stop(_STOPPED)

    def _stop(self, reason: str) -> None:
        with self._lock:
            if self._connection:
                self._stopped = reason
                self._connection.kill()
