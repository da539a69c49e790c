"""The runs that people begin on the boards of one room: jobs of the team, which outlive the room's process."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from workbench.team.jobs.queue import ENDED
from workbench.team.rooms.room_notices import RoomGuest, as_problem
from workbench.team.rooms.room_records import RoomSource
from workbench.team.rooms.stored_room_actions import StoredRoomActions


class RoomRuns:
    """`find(visitor)` is who is there; `tell(message)` passes on to the room's process what happens to a job; `say(user_id, text)` tells
    the people of the room."""

    def __init__(
        self,
        source: RoomSource,
        actions: StoredRoomActions,
        find: Callable[[int], RoomGuest | None],
        tell: Callable[[Mapping[str, Any]], None],
        say: Callable[[str, str], None],
    ) -> None:
        self._source, self._actions, self._find, self._tell, self._say = source, actions, find, tell, say
        self._visitors: dict[int, int] = {}  # who began the runs of the present process, by the runs' numbers
        self._hear = self._pass_on  # one object, by which jobs are followed
        self._last: threading.Thread | None = None

    def handle(self, message: Mapping[str, Any]) -> None:
        """Submit a run as a job, or ask for one to be ended; on a thread, for the queue is in the store, and after what came before: a
        run may be cancelled before it is submitted."""
        self._last = threading.Thread(target=self._handle_after, args=(self._last, message), daemon=True, name="job")
        self._last.start()

    def forget(self) -> None:
        """The room's process has ended: its jobs go on without it."""
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
        except Exception as error:  # noqa: BLE001 - whatever failed, the board waits for a word
            self._pass_on({"job": number, "problem": as_problem(error)})

    def _pass_on(self, message: Mapping[str, Any]) -> None:
        """What happened to a job goes to the process, and its end into what people did."""
        self._tell(message)
        guest = self._find(self._visitors.get(message["job"], 0))
        if guest is not None and message.get("state") in ENDED:
            self._say(guest.principal.user_id, f"run {message['state']}; its figures are in the gallery")
