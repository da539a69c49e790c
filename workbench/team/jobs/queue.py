"""The job queue, which is a database table; one atomic statement claims a job.

Order: the user with the fewest running jobs on the engine, then the one served longest ago, then projects likewise,
then the oldest job. If the next job lacks devices or memory, all jobs behind it wait, so that small jobs do not starve
large ones.

**Invariants**

- A job goes from "queued" through "starting" and "running" to one of `ENDED`, and never back, except that a job in
  "starting" when a server starts may be submitted again.
- The claimed job's user then has at most one more running job than any user whose job could have been claimed instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Integer, case, cast, func, or_, select, update
from sqlalchemy.orm import aliased

from workbench.team.jobs.job_spec import JobError, JobSpec
from workbench.team.store.store import Store, now
from workbench.team.store.tables import StoredFigures, StoredJob

ACTIVE = ("starting", "running")
ENDED = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Concurrent limits of an engine: `jobs` and `devices` in total, jobs of one `person` and one `project`; `minutes`
    per job. `memory` is the bytes of each host that CPU devices may use; on this machine it is detected.
    """

    jobs: int = 4
    devices: int = 64
    person: int = 4
    project: int = 4
    minutes: float = 24 * 60.0
    memory: int | None = None


def enqueue(
    store: Store,
    spec: JobSpec,
    engine: str,
    *,
    project_id: str,
    author_id: str,
    room_id: str | None = None,
    limits: JobLimits | None = None,
) -> str:
    """Queue a job and return its ID. Raises `JobError` if it exceeds the engine's limits."""
    limits = limits or JobLimits()
    if spec.devices > limits.devices:
        raise JobError(
            f"The job takes {spec.devices:,} devices, and {engine} has {limits.devices:,} in total.",
            ["make the mesh smaller", "take another engine", "ask an administrator"],
        )
    if spec.minutes > limits.minutes:
        raise JobError(
            f"The job asks for {spec.minutes:g} minutes, and {engine} gives {limits.minutes:g}.", [f"ask for {limits.minutes:g}"]
        )
    references = {"project_id": project_id, "author_id": author_id, "room_id": room_id}
    row = StoredJob(digest=spec.plan, kind=spec.kind, engine=engine, spec=spec.record(), **references)
    with store.write() as session:
        session.add(row)
    return row.id


def claim(store: Store, engine: str, limits: JobLimits, shared_memory: int | None = None) -> StoredJob | None:
    """Claim the next job, or `None`. A job waits if it needs more of `shared_memory` (bytes) than is free."""
    with store.read() as session:  # avoids a write transaction, which blocks other writers
        waiting = session.scalar(select(StoredJob.id).where(StoredJob.engine == engine, StoredJob.state == "queued").limit(1))
    if waiting is None:
        return None
    active = aliased(StoredJob)
    is_active = (active.engine == engine, active.state.in_(ACTIVE))
    used = select(func.coalesce(func.sum(cast(active.spec["devices"].as_string(), Integer)), 0)).where(*is_active).scalar_subquery()
    running = select(func.count()).select_from(active).where(*is_active).scalar_subquery()
    needed, used_bytes = _host_bytes(StoredJob), select(func.coalesce(func.sum(_host_bytes(active)), 0)).where(*is_active).scalar_subquery()
    has_memory = [] if shared_memory is None else [or_(needed == 0, used_bytes == 0, needed + used_bytes <= shared_memory)]
    claimed = (
        update(StoredJob)
        .where(StoredJob.id == _head(engine, limits).scalar_subquery(), StoredJob.state == "queued")
        .where(cast(StoredJob.spec["devices"].as_string(), Integer) + used <= limits.devices, running < limits.jobs, *has_memory)
        .values(state="starting", started=now())
        .returning(StoredJob)
        .execution_options(synchronize_session=False)
    )
    with store.write() as session:
        return session.scalars(claimed).one_or_none()


def _host_bytes(job: Any) -> Any:
    return func.coalesce(cast(job.spec["host_bytes"].as_string(), BigInteger), 0)


def _head(engine: str, limits: JobLimits) -> Any:
    people, projects = (_shares(engine, column) for column in (StoredJob.author_id, StoredJob.project_id))
    return (
        select(StoredJob.id)
        .join(people, people.c.whose == StoredJob.author_id)
        .join(projects, projects.c.whose == StoredJob.project_id)
        .where(StoredJob.engine == engine, StoredJob.state == "queued")
        .where(people.c.running < limits.person, projects.c.running < limits.project)
        .order_by(people.c.running, people.c.served, projects.c.running, projects.c.served, StoredJob.created, StoredJob.id)
        .limit(1)
        .with_for_update(skip_locked=True, of=StoredJob)
    )


def _shares(engine: str, column: Any) -> Any:
    running = func.sum(case((StoredJob.state.in_(ACTIVE), 1), else_=0))
    served = func.coalesce(func.max(StoredJob.started), 0.0)
    columns = (column.label("whose"), running.label("running"), served.label("served"))
    return select(*columns).where(StoredJob.engine == engine).group_by(column).subquery()


def active_jobs(store: Store, engine: str) -> Sequence[StoredJob]:
    with store.read() as session:
        statement = select(StoredJob).where(StoredJob.engine == engine, StoredJob.state.in_(ACTIVE))
        return session.scalars(statement.order_by(StoredJob.started)).all()


def mark_running(store: Store, job_id: str, native: str) -> None:
    with store.write() as session:
        session.execute(update(StoredJob).where(StoredJob.id == job_id, StoredJob.state.in_(ACTIVE)).values(state="running", native=native))


def ask_to_cancel(store: Store, job_id: str) -> str:
    """Cancel a queued job or request the end of an active one, and return its state. An ended job is unchanged."""
    with store.write() as session:
        row = session.get(StoredJob, job_id, with_for_update=True)
        if row is None:
            raise JobError(f"There is no job `{job_id[:80]}`.", ["see the list of jobs"])
        if row.state not in ENDED and row.cancel_asked is None:
            row.cancel_asked = now()
        if row.state == "queued":
            row.state, row.ended = "cancelled", now()
        return row.state


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job: `state` is one of `ENDED`; `figures` are the plan's, by tier."""

    state: str
    summary: Mapping[str, Any]
    problem: str = ""
    figures: Mapping[str, Mapping[str, Any]] | None = None
    version: str = ""


def finish(store: Store, job_id: str, result: JobResult) -> bool:
    """Store a job's result and figures once; returns whether it was active."""
    values = {"state": result.state, "summary": dict(result.summary), "problem": result.problem, "ended": now()}
    with store.write() as session:
        ended = update(StoredJob).where(StoredJob.id == job_id, StoredJob.state.in_(ACTIVE)).values(**values).returning(StoredJob.digest)
        digest = session.execute(ended.execution_options(synchronize_session=False)).scalar_one_or_none()
        if digest is None:
            return False
        for tier, figures in (result.figures or {}).items():
            row = {"digest": digest, "tier": tier, "version": result.version, "values": dict(figures), "job_id": job_id, "created": now()}
            thumbnail = session.scalar(select(StoredFigures.thumbnail).where(StoredFigures.digest == digest, StoredFigures.tier == tier))
            session.merge(StoredFigures(**row, thumbnail=thumbnail or ""))
    return True
