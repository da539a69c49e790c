"""The thread of one engine's jobs, whose state is in the store and job folders, so that others can resume."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from workbench.team.jobs.job_events import LOST, EventReader, JobEvent, ReportedProgress
from workbench.team.jobs.job_folder import EVENTS, SPEC, STARTED, add_ending, read_exit
from workbench.team.jobs.job_spec import JobError, JobSpec, parse_spec
from workbench.team.jobs.local_engine import EngineUnavailableError, JobEngine, NativeState
from workbench.team.jobs.queue import JobLimits, JobResult, active_jobs, claim, finish, mark_running
from workbench.team.store.store import Store
from workbench.team.store.tables import StoredJob

TICK, IDLE = 0.1, 1.0  # seconds between turns, with and without active jobs
SUBMIT_AGAIN, GIVE_UP = 2.0, 300.0  # seconds between submissions to an unavailable engine, and until the job fails
CANCEL_AGAIN = 10.0  # seconds between cancellation requests to an engine
_LOG = logging.getLogger(__name__)

WriteFolder = Callable[[str, JobSpec, JobEngine], Path]
JobListener = Callable[[str, Sequence[JobEvent], str], None]
"""Called on the lane's thread with a job's ID, new events and state."""


@dataclass
class _Followed:
    job_id: str
    folder: Path
    spec: JobSpec
    native: str
    reader: EventReader
    progress: ReportedProgress = field(default_factory=ReportedProgress)
    asked_at: float = 0.0  # time of the last status query
    cancelled_at: float | None = None
    gone_since: float | None = None


class EngineLane:
    """The jobs of one engine. `shared_memory` returns the bytes that they share if they run on one machine."""

    def __init__(
        self,
        store: Store,
        engine: JobEngine,
        limits: JobLimits,
        data: Path,
        write_folder: WriteFolder,
        tell: JobListener,
        shared_memory: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.engine, self.limits, self._shared_memory = engine, limits, shared_memory
        self._store, self._data, self._write_folder, self._tell = store, data, write_folder, tell
        self._followed: dict[str, _Followed] = {}
        self._unanswered: dict[
            str, tuple[float, float]
        ] = {}  # times of the first and last submission attempt of jobs that are not submitted yet
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"jobs of {engine.name}")
        self.reattached = 0
        self.is_well = True
        self.failures = 0  # failed turns
        self._well_at = time.monotonic()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        """Stop the thread. The jobs continue."""
        self._stopped.set()
        self._woken.set()
        if self._thread.ident is not None:  # not started if the server could not listen
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and self.is_well

    def missing_seconds(self) -> float:
        """Return the seconds since the last successful turn; 0 while turns succeed."""
        return 0.0 if self.is_alive else time.monotonic() - self._well_at

    def _run(self) -> None:
        is_new = True
        while not self._stopped.is_set():
            self._woken.clear()
            try:
                if is_new:
                    self._attach()
                    is_new = False
                self.turn()
                self.is_well, self._well_at = True, time.monotonic()
            except BaseException:  # noqa: BLE001 - the store is locked or the disk is full: the next turn may succeed
                if self.is_well:  # logged once, because the log may be on the full disk
                    _LOG.exception("The jobs of %s could not be checked.", self.engine.name)
                self.is_well, is_new = False, True  # unsaved progress is read again from the folders
                self.failures += 1
            self._woken.wait(TICK if self.is_well and (self._followed or self._unanswered) else IDLE)

    def turn(self) -> None:
        rows = {row.id: row for row in active_jobs(self._store, self.engine.name)}
        for job_id, row in rows.items():
            if row.cancel_asked is not None and job_id in self._followed:
                self._cancel(self._followed[job_id])
            elif job_id in self._unanswered:
                self._submit_again(row)
        for job in list(self._followed.values()):
            if job.job_id in rows:
                self._follow(job, was_asked_to_end=rows[job.job_id].cancel_asked is not None)
            else:
                del self._followed[job.job_id]
        while not self._stopped.is_set() and (claimed := self.claim()) is not None:
            self._submit(claimed)

    def claim(self) -> StoredJob | None:
        return claim(self._store, self.engine.name, self.limits, self._shared_memory())

    def _submit_again(self, row: StoredJob) -> None:
        """Submit a job again after no answer; if the engine already has it, it still runs once."""
        if row.cancel_asked is not None:
            self._finish(row.id, JobResult("cancelled", {}), ())
        elif time.monotonic() - self._unanswered[row.id][1] > SUBMIT_AGAIN:
            self._submit(row)

    def _attach(self) -> None:
        """Resume the jobs of a previous server, and submit those that it had only claimed."""
        for row in active_jobs(self._store, self.engine.name):
            if row.id in self._followed or row.id in self._unanswered:
                continue
            folder, spec = self._data / row.id, parse_spec(row.spec)
            native = row.native
            if native is None and (folder / SPEC).exists():
                with suppress(JobError):
                    native = self.engine.recover(spec, folder)
            if native is None and not (folder / STARTED).exists():
                self._submit(row)
                continue
            self._add(row.id, folder, spec, native or "")
            self.reattached += 1

    def _submit(self, row: StoredJob) -> None:
        try:
            spec = parse_spec(row.spec)
            folder = self._write_folder(row.id, spec, self.engine)
            native = self.engine.submit(spec, folder)
        except EngineUnavailableError as error:
            first = self._unanswered.get(row.id, (time.monotonic(),))[0]
            self._unanswered[row.id] = first, time.monotonic()
            if time.monotonic() - first > GIVE_UP:
                self._finish(row.id, JobResult("failed", {}, str(error)), ())
            return
        except JobError as error:
            self._finish(row.id, JobResult("failed", {}, str(error)), ())
            return
        except OSError as error:
            self._finish(row.id, JobResult("failed", {}, f"The folder of the job cannot be written: {error.strerror}."), ())
            return
        self._add(row.id, folder, spec, native)

    def _add(self, job_id: str, folder: Path, spec: JobSpec, native: str) -> None:
        mark_running(self._store, job_id, native)
        self._unanswered.pop(job_id, None)
        self._followed[job_id] = _Followed(job_id, folder, spec, native, EventReader(folder / EVENTS), asked_at=time.monotonic())
        self._tell(job_id, (), "running")

    def _cancel(self, job: _Followed) -> None:
        if job.native and (job.cancelled_at is None or time.monotonic() - job.cancelled_at > CANCEL_AGAIN):
            job.cancelled_at = time.monotonic()
            try:
                self.engine.cancel(job.native)
            except JobError as error:
                _LOG.warning("%s", error)

    def _follow(self, job: _Followed, *, was_asked_to_end: bool) -> None:
        """Read new events. A job has ended if its folder says so, or if neither engine nor folder knows it."""
        has_ended = bool(read_exit(job.folder))  # read before the events, because the last event is written first
        self._read(job)
        if not has_ended and time.monotonic() - job.asked_at >= self.engine.interval:
            job.asked_at = time.monotonic()
            has_ended = self._is_lost(job)
        if has_ended:
            self._read(job)
            result = job.progress.result(was_asked_to_end=was_asked_to_end)
            if job.progress.ending is None:
                with suppress(OSError):  # for readers that follow the file
                    add_ending(job.folder, result.state, LOST, ["submit it again"])
            self._finish(job.job_id, result, job.reader.read())

    def _read(self, job: _Followed) -> None:
        if events := job.reader.read():
            job.progress.add(events)
            self._tell(job.job_id, events, "running")

    def _is_lost(self, job: _Followed) -> bool:
        """Return whether the engine has not known the job for longer than its folder may lag behind."""
        try:
            if job.native and self.engine.state(job.native) is not NativeState.GONE:
                job.gone_since = None
                return False
            if (recovered := self.engine.recover(job.spec, job.folder)) not in (None, job.native):  # an earlier submission started the job
                job.native, job.gone_since = str(recovered), None
                mark_running(self._store, job.job_id, job.native)
                return False
        except JobError as error:  # no answer: unknown
            _LOG.warning("%s", error)
            return False
        if read_exit(job.folder):
            return True
        job.gone_since = job.gone_since or time.monotonic()
        return time.monotonic() - job.gone_since >= self.engine.patience

    def _finish(self, job_id: str, result: JobResult, events: Sequence[JobEvent]) -> None:
        self._followed.pop(job_id, None)
        self._unanswered.pop(job_id, None)
        if finish(self._store, job_id, result):
            self._tell(job_id, events, result.state)
