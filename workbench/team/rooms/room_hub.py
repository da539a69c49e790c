"""Open rooms, started for the first visitor and ended after the last one; and their Bokeh page."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import panel as pn

from workbench.app.page.page_template import TITLE, template_of
from workbench.app.processes.child_table import ROOMS, ChildState
from workbench.app.runners.job_queue import JobQueue
from workbench.errors import WorkbenchError
from workbench.team.access import MissingError, NotSignedInError, Principal, ProjectRole
from workbench.team.accounts.bokeh_auth_provider import person_of_session
from workbench.team.rooms.planners import Planners
from workbench.team.rooms.room_notices import RoomGuest, RoomScreen
from workbench.team.rooms.room_records import PushedPlan, append_push, principal_of_user, read_room, role_of
from workbench.team.rooms.room_supervisor import OpenRoom
from workbench.team.rooms.stored_room_actions import RoomJobs, StoredRoomActions
from workbench.team.store.database_errors import DatabaseProblemError
from workbench.team.store.store import Store

PATH = "/room/{room}"
IDLE_FOR, MOST_ROOMS = 600.0, 200
"""Seconds that an empty room keeps its process, and the maximum number of open rooms."""
LOOK = 1.0  # seconds between checks of all rooms
ROLES_LOOK = 10  # number of these checks between role checks, because links expire
PUSH_PATIENCE, PUSH_PAUSE = 120.0, 0.05  # seconds that a sent plan waits for a room, and between attempts
RUN_LIMIT = 1800.0  # seconds of a run or compilation from a board

_log = logging.getLogger(__name__)


class RoomHub:
    """The open rooms: `web.team_services.Rooms`."""

    def __init__(self, store: Store, planners: Planners, address: str, *, idle_for: float = IDLE_FOR) -> None:
        self._store, self._planners, self._idle_for = store, planners, idle_for
        self._queue, self._actions = JobQueue(), StoredRoomActions(store, address)
        self._lock = threading.RLock()
        self._rooms: dict[str, OpenRoom] = {}
        self._past_deaths = 0  # process deaths in rooms that are closed
        self._is_closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True, name="rooms").start()

    def count(self) -> int:
        with self._lock:
            return len(self._rooms)

    def children(self) -> Mapping[str, ChildState]:
        with self._lock:
            rooms = list(self._rooms.values())
            deaths = self._past_deaths + sum(room.total_deaths for room in rooms)
        return {ROOMS.name: ChildState(deaths, max((room.missing_seconds() for room in rooms), default=0.0))}

    def people_in(self, room_id: str) -> list[str]:
        with self._lock:
            room = self._rooms.get(room_id)
        return list(dict.fromkeys(person.user_id for person in room.presence.people())) if room else []

    def enter(self, room_id: str, principal: Principal, screen: RoomScreen) -> Callable[[], None]:
        """Show a room; returns the function to call on closing. Raises `MissingError` and `WorkbenchError`."""
        role = role_of(self._store, principal, room_id)
        if role is None:
            raise MissingError("room", room_id)
        while (number := (room := self._room(room_id)).enter(principal, role, screen)) is None:
            """Retry: the room was ended at this moment, and the next one is new."""
        return partial(room.leave, number)

    async def changed(self, room_ids: Sequence[str]) -> None:
        with self._lock:
            rooms = [self._rooms[room_id] for room_id in room_ids if room_id in self._rooms]
        for room in rooms:
            await asyncio.to_thread(self._verify_roles, room)
            await asyncio.to_thread(room.read_again)

    async def push_plan(self, room_ids: Sequence[str], pushed: PushedPlan) -> None:
        for room_id in room_ids:
            try:
                await asyncio.to_thread(self._push, room_id, pushed)
            except DatabaseProblemError:
                raise
            except WorkbenchError as error:  # a room that has been closed must not affect the others
                _log.info("A plan was not sent into the room %s: %s", room_id, error)

    def _push(self, room_id: str, pushed: PushedPlan) -> None:
        """Send a plan to an open room's process, or else write it to the log. Waits for a room that is being opened."""
        for _ in range(int(PUSH_PATIENCE / PUSH_PAUSE)):
            with self._lock:
                room = self._rooms.get(room_id)
                if room is None or room.is_closed:
                    append_push(self._store, room_id, pushed)
                    return
            if room.push(pushed):
                return
            time.sleep(PUSH_PAUSE)

    def use_jobs(self, jobs: RoomJobs) -> None:
        self._actions.jobs = jobs

    def end_program(self, program_id: str) -> None:
        with self._lock:
            rooms = [room for room in self._rooms.values() if room.source.program is not None and room.source.program.id == program_id]
        for room in rooms:
            room.close("The program of this room was withdrawn.")

    def close(self) -> None:
        self._is_closed.set()
        with self._lock:
            for room in self._rooms.values():
                room.close()
            self._rooms.clear()

    def _room(self, room_id: str) -> OpenRoom:
        with self._lock:
            if self._is_closed.is_set():
                raise WorkbenchError("The server is closing.", ["reload the page after the restart"])
            room = self._rooms.get(room_id)
            if room is None or room.is_closed:
                if len(self._rooms) >= MOST_ROOMS:
                    raise WorkbenchError(f"{MOST_ROOMS} rooms are open, which is the limit.", ["close the page of an unused room"])
                source = read_room(self._store, room_id, with_log=False)  # on the event loop: the room's process reads the whole log
                room = OpenRoom(source, self._store, self._planners, self._queue, self._actions, RUN_LIMIT)
                self._forget(room_id)
                self._rooms[room_id] = room
            return room

    def _verify_roles(self, room: OpenRoom) -> None:
        for guest in room.guests():
            room.set_role(guest.number, self._role_now(guest, room.source.room_id))

    def _role_now(self, guest: RoomGuest, room_id: str) -> ProjectRole | None:
        try:
            return role_of(self._store, guest.principal, room_id)
        except NotSignedInError:
            return None

    def _watch(self) -> None:
        rounds = 0
        while not self._is_closed.wait(LOOK):
            rounds += 1
            self._planners.look()
            with self._lock:
                rooms = list(self._rooms.values())
            for room in rooms:
                try:
                    room.look()
                    if rounds % ROLES_LOOK == 0:
                        self._verify_roles(room)
                except Exception:  # noqa: BLE001 - the other rooms must still be checked
                    _log.exception("A room could not be supervised.")
            self._end_idle()

    def _end_idle(self) -> None:
        now = time.monotonic()
        with self._lock:
            for room_id, room in list(self._rooms.items()):
                if room.left_at is not None and now - room.left_at > self._idle_for:
                    room.close()
                if room.is_closed and not room.guests():
                    self._forget(room_id)

    def _forget(self, room_id: str) -> None:
        if (room := self._rooms.pop(room_id, None)) is not None:
            self._past_deaths += room.total_deaths


def room_page(store: Store, hub: RoomHub, health: str) -> pn.Template:
    """Create the page of a Bokeh session's user; after a lost connection it polls `health` and reloads."""
    document = pn.state.curdoc
    screen = RoomScreen(document)
    room_id = pn.state.route_params.get("room", "")
    try:
        principal = principal_of_user(store, person_of_session(document.session_context.token_payload))
        leave = hub.enter(room_id, principal, screen)
    except WorkbenchError as error:
        return template_of(TITLE, None, str(error))

    def close(_session: object) -> None:
        screen.leave()
        leave()

    pn.state.on_session_destroyed(close)
    return template_of(TITLE, screen.root, opens=True, health=health, is_kept=True)
