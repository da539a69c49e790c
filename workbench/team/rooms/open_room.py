"""A room that people are in: its process, and the pages that show it. A process that dies is replaced by one that replays the log."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from workbench.app.runners.job_queue import JobQueue
from workbench.errors import WorkbenchError
from workbench.team.access import Principal, ProjectRole
from workbench.team.jobs.queue import ENDED
from workbench.team.rooms.planners import Planners
from workbench.team.rooms.presence import RoomPresence
from workbench.team.rooms.room_actions import RoomActions
from workbench.team.rooms.room_comments import read_comments
from workbench.team.rooms.room_connection import RoomConnection
from workbench.team.rooms.room_guest import RoomGuest
from workbench.team.rooms.room_jobs import Tell
from workbench.team.rooms.room_notices import show_failure, show_notice, tell_conflict
from workbench.team.rooms.room_records import RoomSource, append_entry, read_room, verify_entry
from workbench.team.rooms.room_screen import RoomScreen
from workbench.team.rooms.untrusted_process import verify_shown
from workbench.team.store.store import Store

PATIENCE, LIMIT = 3.0, 120.0
"""Seconds until the people see that the room is busy, and until its work is stopped."""
MOST_DEATHS, WITHIN = 3, 60.0
"""A room whose process dies so often within so many seconds is not started again by itself."""

_STOPPED = "Somebody stopped what it was at"
_TOO_SLOW = f"What it was at took longer than {LIMIT:.0f} s and was stopped"


class OpenRoom:
    """A `RoomListener`. Thread-safe: pages are of the server's event loop, what the process says comes on a thread."""

    def __init__(
        self, source: RoomSource, store: Store, planners: Planners, queue: JobQueue, actions: RoomActions, time_limit: float
    ) -> None:
        self.source = source
        self.is_closed = False
        self.left_at: float | None = time.monotonic()
        self._store, self._planners, self._queue, self._actions, self._time_limit = store, planners, queue, actions, time_limit
        self._lock = threading.RLock()
        self._guests: dict[int, RoomGuest] = {}
        self._connection: RoomConnection | None = None
        self._deaths: list[float] = []
        self._stopped = ""
        self._number = 0
        self._head = _head_of(source)
        self._runs: dict[int, int] = {}  # the visitors who began the runs of the process, by the runs' numbers
        self._tell_job: Tell = self._pass_on_job  # one object, by which jobs are followed
        self._comments = read_comments(store, source.room_id)
        self._gallery = actions.gallery_of(source)
        self.presence = RoomPresence(self._show_presence)
        self._begin("")

    def enter(self, principal: Principal, role: ProjectRole, screen: RoomScreen) -> int:
        """Somebody opens the page; the number of the visitor."""
        with self._lock:
            self._number += 1
            guest = RoomGuest(self._number, principal, role, screen)
            self._guests[guest.number], self.left_at = guest, None
            screen.hear = lambda message: self._hear(guest, message)
            self.presence.enter(guest.number, principal.user_id, principal.display, str(role))
            self._send(guest.entering())
            return guest.number

    def leave(self, number: int) -> None:
        """A page is closed."""
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
                guest.screen.hear = _to_nobody
                self.leave(number)
                show_failure(guest.screen, "This room is not yours to see any more: your role was taken back, or the room was closed.")
                return
            guest.role = role
            self.presence.update(number, role=str(role))
            self._send({"role": int(role), "visitor": number})

    def show_comments(self) -> None:
        """Somebody wrote a comment, or took one away."""
        self._comments = read_comments(self._store, self.source.room_id)
        self.presence.changed()

    def look(self) -> None:
        """Called every second: who is still there, and whether the process is at one thing for too long."""
        for guest in self.guests():
            if guest.screen.is_watched():
                self.presence.touch(guest.number)
        seconds = self._connection.busy_for() if self._connection else 0.0
        if seconds > LIMIT:
            self._stop(_TOO_SLOW)
            return
        for guest in self.guests():
            guest.screen.show_busy(seconds if seconds > PATIENCE else 0.0)

    def close(self, text: str = "") -> None:
        """End the process; with a text every page shows that in place of the board."""
        with self._lock:
            self.is_closed = True
            if self._connection:
                self._connection.close()
            for guest in self._guests.values():
                guest.screen.hear = _to_nobody
                if text:
                    show_failure(guest.screen, text)

    def keep(self, message: Mapping[str, Any]) -> None:
        """Store an entry of the log, and tell the room of it."""
        entry = message["log"]
        verify_entry(entry, {guest.principal.user_id for guest in self.guests() if guest.role >= ProjectRole.EDITOR})
        append_entry(self._store, self.source.room_id, entry, message["digest"])
        self._head = entry["body"].get("head", self._head)
        self.presence.say(entry["author"], message["says"])
        for conflict in message["conflicts"]:
            tell_conflict(self.guests(), entry["author"], message["says"], conflict)

    def show(self, visitor: int, target: str, parameters: Mapping[str, Any]) -> None:
        """Show parameters on a visitor's page."""
        guest = self._guests.get(visitor)
        if guest is None:
            return
        if self.source.program is not None:
            parameters = verify_shown(target, parameters)
        guest.screen.show("board" if target == "board" else "bridge", parameters)

    def save(self, visitor: int, message: Mapping[str, Any]) -> None:
        """Put a plan into the gallery."""
        guest = self._guests.get(visitor)
        if guest is None:
            return
        try:
            place = self._actions.save(self.source, guest, message)
        except WorkbenchError as error:
            show_notice(guest.screen, "This plan was not put into the gallery", str(error))
            return
        show_notice(guest.screen, "In the gallery", f"This plan is in the gallery of {self.source.project}.", [["open", "Show it", place]])

    def work(self, message: Mapping[str, Any]) -> None:
        """Submit a run as a job, or ask for one to be ended; on a thread, for the queue is in the store."""
        threading.Thread(target=self._work, args=(message,), daemon=True, name="job").start()

    def _work(self, message: Mapping[str, Any]) -> None:
        number = message.get("cancel", message.get("job"))
        guest = self._guests.get(message["visitor"] if "run" in message else self._runs.get(number, 0))
        if guest is None:
            return
        try:
            if "run" in message:
                self._runs[number] = guest.number
                self._actions.run(self.source, guest, message, self._tell_job)
            else:
                self._actions.cancel(guest, number, self._tell_job)
        except WorkbenchError as error:
            self._tell_job({"job": number, "problem": {"message": error.message, "ways_out": list(error.ways_out)}})

    def _pass_on_job(self, message: Mapping[str, Any]) -> None:
        """What happened to a job goes to the process, and its end into what people did."""
        self._send(message)
        guest = self._guests.get(self._runs.get(message["job"], 0))
        if guest is not None and message.get("state") in ENDED:
            self.presence.say(guest.principal.user_id, f"run {message['state']}; its figures are in the gallery")

    def see(self, visitor: int, view: Mapping[str, Any]) -> None:
        """What a visitor sees now; whoever follows them sees it too."""
        if self.presence.update(visitor, tab=view["tab"], selected=view["selected"]) is not None:
            for person in self.presence.people():
                if person.following == visitor:
                    self._lead(person.visitor, visitor)

    def ended(self, connection: RoomConnection) -> None:
        """The process died: another one replays the log, and says what happened."""
        reason = self._stopped or self._reason(connection)
        self._actions.forget_jobs(self._tell_job)
        self._runs.clear()
        with self._lock:
            now, self._connection, self._stopped = time.monotonic(), None, ""
            self._deaths = [*(each for each in self._deaths if now - each < WITHIN), now]
            if self.is_closed:
                return
            if len(self._deaths) >= MOST_DEATHS or not self._guests:
                self.close(f"{reason}, and so it did {MOST_DEATHS} times within {WITHIN:.0f} s. Reload the page to try once more.")
                return
        self._begin(reason)

    def _reason(self, connection: RoomConnection) -> str:
        if connection.failure is not None:
            return "What was done last could not be stored, so it was not done"
        return connection.planner.reason(connection.pid)

    def _begin(self, died: str) -> None:
        """Start a process in a thread: the first of a server takes a moment."""
        threading.Thread(target=self._open, args=(died,), daemon=True, name="room").start()

    def _open(self, died: str) -> None:
        try:
            source = read_room(self._store, self.source.room_id)
            connection = RoomConnection(self._planners.connect(source.program), self._queue, self)
        except WorkbenchError as error:
            self.close(str(error))
            return
        room = {"document": source.document, "name": source.name, "log": source.log, "time_limit": self._time_limit}
        connection.send({"room": room})
        problem = connection.opened.result()
        if problem is not None:
            connection.close()
            self.close(str(WorkbenchError(problem["message"], problem["ways_out"])))
            return
        self._connect_guests(connection, died)

    def _connect_guests(self, connection: RoomConnection, died: str) -> None:
        with self._lock:
            if self.is_closed:
                connection.close()
                return
            self._connection = connection
            for guest in self._guests.values():
                connection.send(guest.entering())
                if died:
                    text = f"{died}, so what was done last may not have been done. Everything before it is here."
                    show_notice(guest.screen, "The room was started again", text)

    def _hear(self, guest: RoomGuest, message: Mapping[str, Any]) -> None:
        heard = message.get("heard", {})
        if heard.get("kind") == "stop":
            self._stop(_STOPPED)
        elif heard.get("kind") == "follow":
            self._follow(guest.number, heard.get("visitor"))
        elif heard.get("kind") == "branch":
            self._branch(guest)
        elif heard.get("kind") == "go":
            self._send({"gesture": {"verb": "go", "number": heard.get("node")}, "visitor": guest.number})
        elif "gesture" in message or "heard" in message:
            self.presence.touch(guest.number)
            self.presence.update(guest.number, hand=_held_dimension(message.get("gesture", {})))
            self._send({**message, "visitor": guest.number})

    def _branch(self, guest: RoomGuest) -> None:
        try:
            place = self._actions.branch(self.source, guest)
        except WorkbenchError as error:
            show_notice(guest.screen, "This room has no branch yet", str(error))
            return
        text = "It begins with this room's history, and what you do there changes nothing here."
        show_notice(guest.screen, "A room of your own", text, [["open", "Go there", place]])

    def _follow(self, visitor: int, leader: object) -> None:
        known = {person.visitor for person in self.presence.people()} - {visitor}
        chosen = leader if isinstance(leader, int) and leader in known else 0
        self.presence.update(visitor, following=chosen)
        if chosen:
            self._lead(visitor, chosen)

    def _lead(self, follower: int, leader: int) -> None:
        """Open what the leader sees on the follower's board."""
        mine, theirs = self.presence.person(follower), self.presence.person(leader)
        if mine is None or theirs is None:
            return
        if theirs.tab and mine.tab != theirs.tab:
            self._send({"gesture": {"verb": "open", "tab": theirs.tab}, "visitor": follower})
        if mine.selected != theirs.selected:
            self._send({"gesture": {"verb": "select", "path": theirs.selected or mine.selected}, "visitor": follower})

    def _show_presence(self) -> None:
        shared = {**self.presence.state(), "name": self.source.name, "project": self.source.project, "head": self._head}
        places = {"gallery": self._gallery, "comments_at": self._actions.comments_of(self.source)}
        for guest in self.guests():
            comments = [each.as_state(guest.principal.user_id) for each in self._comments]
            mine = {"you": guest.number, "edits": guest.role >= ProjectRole.EDITOR, "comments": comments}
            guest.screen.show_room({**shared, **places, **mine})

    def _send(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            if self._connection:
                self._connection.send(message)  # else the guests enter when there is a process

    def _stop(self, reason: str) -> None:
        self._stopped = reason
        if self._connection:
            self._connection.kill()


def _head_of(source: RoomSource) -> int:
    """The number of the plan that is present at the end of a log."""
    return next((each["body"]["head"] for each in reversed(source.log) if "head" in each["body"]), 0)


def _held_dimension(gesture: Mapping[str, Any]) -> str:
    """The dimension that a hand holds over a zone, before it lets go."""
    held = gesture.get("dim") if gesture.get("ahead") else ""
    return held[:80] if isinstance(held, str) else ""


def _to_nobody(_message: Mapping[str, Any]) -> None:
    """The page shows no room any more."""
