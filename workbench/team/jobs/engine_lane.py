"""The jobs of one engine, followed by a thread: claimed as there is room, submitted, read from their folders, ended.

An engine that answers late keeps no other engine waiting. The thread holds nothing that is not in the store or in a folder: another that is
started later, by another process, goes on where this one was.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from workbench.team.jobs.job_events import EventReader, JobEvent
from workbench.team.jobs.job_folder import EVENTS, SPEC, STARTED, add_ending, read_exit
from workbench.team.jobs.job_result import LOST, ReportedProgress
from workbench.team.jobs.job_spec import JobError, JobSpec, parse_spec
from workbench.team.jobs.local_engine import EngineUnavailableError, JobEngine, NativeState
from workbench.team.jobs.queue import JobLimits, JobResult, active_jobs, claim, finish, mark_running
from workbench.team.store.store import Store
from workbench.team.store.tables import StoredJob

TICK, IDLE = 0.1, 1.0  # seconds between two turns, with jobs and without
SUBMIT_AGAIN, GIVE_UP = 2.0, 300.0  # seconds until an engine that did not answer is asked again, and for how long it is
CANCEL_AGAIN = 10.0  # seconds after which an engine is asked again to end a job
_LOG = logging.getLogger(__name__)

WriteFolder = Callable[[str, JobSpec, JobEngine], Path]
JobListener = Callable[[str, Sequence[JobEvent], str], None]
"""Called with a job's id, its new events, and its state, from the thread of an engine."""


@dataclass
class _Followed:
    """A job that the engine has."""

    job_id: str
    folder: Path
    spec: JobSpec
    native: str
    reader: EventReader
    progress: ReportedProgress = field(default_factory=ReportedProgress)
    asked_at: float = 0.0  # when the engine was last asked about it
    cancelled_at: float | None = None
    gone_since: float | None = None


class EngineLane:
    """See the module. `write_folder` makes the folder of a job that was claimed; `tell` is called with what happens.

    `shared_memory`: bytes that its jobs share, where they run on one machine.
    """

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
        self._unanswered: dict[str, tuple[float, float]] = {}  # jobs not yet submitted: when that was tried first, and last
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"jobs of {engine.name}")
        self.reattached = 0
        self.is_well = True
        self.failures = 0  # of turns
        self._well_at = time.monotonic()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Look at the store now."""
        self._woken.set()

    def stop(self) -> None:
        """Follow no more. The jobs go on."""
        self._stopped.set()
        self._woken.set()
        if self._thread.ident is not None:  # a server that cannot listen never starts it
            self._thread.join()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and self.is_well

    def missing_seconds(self) -> float:
        """For how long no turn has come to its end; 0 while they do."""
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
            except BaseException:  # noqa: BLE001 - a store that is locked, a disk that is full: the next turn may do
                if self.is_well:  # said once, for the log may be on the disk that is full
                    _LOG.exception("The jobs of %s could not be checked.", self.engine.name)
                self.is_well, is_new = False, True  # what could not be noted is found again in the folders
                self.failures += 1
            self._woken.wait(TICK if self.is_well and (self._followed or self._unanswered) else IDLE)

    def turn(self) -> None:
        """What there is to do now."""
        rows = {row.id: row for row in active_jobs(self._store, self.engine.name)}
        for job_id, row in rows.items():
            if row.cancel_asked is not None and job_id in self._followed:
                self._cancel(self._followed[job_id])
            elif job_id in self._unanswered:
                self._submit_again(row)
        for each in list(self._followed.values()):
            if each.job_id in rows:
                self._follow(each, was_asked_to_end=rows[each.job_id].cancel_asked is not None)
            else:
                del self._followed[each.job_id]
        while not self._stopped.is_set() and (claimed := self.claim()) is not None:
            self._submit(claimed)

    def claim(self) -> StoredJob | None:
        """The job whose turn it is, if there is room for it."""
        return claim(self._store, self.engine.name, self.limits, self._shared_memory())

    def _submit_again(self, row: StoredJob) -> None:
        """A job that the engine did not answer about; it may have it all the same, and then runs once."""
        if row.cancel_asked is not None:
            self._finish(row.id, JobResult("cancelled", {}), ())
        elif time.monotonic() - self._unanswered[row.id][1] > SUBMIT_AGAIN:
            self._submit(row)

    def _attach(self) -> None:
        """Follow the jobs that a server before this one has submitted; what it did not come to submit is submitted now."""
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
        """Read what is new. That it has ended its folder says; where the engine knows nothing of it, and its folder neither, it is lost."""
        has_ended = read_exit(job.folder) is not None  # before the events, whose end is written before it
        self._read(job)
        if not has_ended and time.monotonic() - job.asked_at >= self.engine.interval:
            job.asked_at = time.monotonic()
            has_ended = self._is_lost(job)
        if has_ended:
            self._read(job)
            result = job.progress.result(was_asked_to_end=was_asked_to_end)
            if job.progress.ending is None:
                with suppress(OSError):  # for whoever follows the file
                    add_ending(job.folder, result.state, LOST, ["submit it again"])
            self._finish(job.job_id, result, job.reader.read())

    def _read(self, job: _Followed) -> None:
        if events := job.reader.read():
            job.progress.add(events)
            self._tell(job.job_id, events, "running")

    def _is_lost(self, job: _Followed) -> bool:
        """Whether the engine has no such job, and has had none for as long as the folder may be behind."""
        try:
            if job.native and self.engine.state(job.native) is not NativeState.GONE:
                job.gone_since = None
                return False
            if (other := self.engine.recover(job.spec, job.folder)) not in (None, job.native):  # a submission before this one has begun it
                job.native, job.gone_since = str(other), None
                mark_running(self._store, job.job_id, job.native)
                return False
        except JobError as error:  # it does not answer: nobody knows
            _LOG.warning("%s", error)
            return False
        if read_exit(job.folder) is not None:
            return True
        job.gone_since = job.gone_since or time.monotonic()
        return time.monotonic() - job.gone_since >= self.engine.patience

    def _finish(self, job_id: str, result: JobResult, events: Sequence[JobEvent]) -> None:
        self._followed.pop(job_id, None)
        self._unanswered.pop(job_id, None)
        if finish(self._store, job_id, result):
            self._tell(job_id, events, result.state)
