"""Runs that people begin on a room's board, as jobs of the team: where the project's hardware catalogue says, else on this machine."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from workbench.team.actions.action import Inputs
from workbench.team.actions.all_actions import action_of
from workbench.team.actions.perform import Context, perform
from workbench.team.jobs.events import JobEvent
from workbench.team.rooms.room_notices import RoomGuest
from workbench.team.rooms.room_records import RoomSource
from workbench.team.store.tables import StoredJob, StoredPlan, TeamHardware
from workbench.team.web.services import TeamServices

Tell = Callable[[Mapping[str, Any]], None]
"""Passes what happens to a job to the room's process."""
_WAITING = ("queued",)


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
            before = (StoredJob.engine == job.engine, StoredJob.state.in_(_WAITING), StoredJob.created < job.created)
            return session.scalar(select(func.count()).select_from(StoredJob).where(*before)) or 0

    def _perform(self, name: str, guest: RoomGuest, inputs: Inputs) -> Any:
        return _wait(perform(action_of(name), Context(self._services, guest.principal), inputs))


def _wait(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine gives, on a thread that may wait."""
    return asyncio.run(work)
