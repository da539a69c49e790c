"""The queue is the table: a job waits in its row until somebody claims it, in one statement that nobody else can make at the same time.

Who is served: the person with the fewest jobs running on the engine, of those the one who was served the longest ago, then the project
alike, then the oldest job. The job whose turn it is waits where its devices or its memory are taken, and those behind it wait with it: a
large job is not starved by small ones.

**Invariants**

- A job goes from "queued" over "starting" and "running" to one of `ENDED`, and never back, but that what is "starting" at the start of a
  server may be begun again.
- Who is claimed has, with that job, at most one more running than anybody whose job could have been claimed instead.
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
    """How much of one engine at a time: `jobs` and `devices` in all, and of one `person` and one `project`; `minutes` of one job;
    `memory`: bytes of each host that the devices of runs may use, where they are its processor's; of this machine it is known."""

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
    """Put a job into the queue of an engine; its id. Raises `JobError` for one that could never be claimed."""
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
    whose = {"project_id": project_id, "author_id": author_id, "room_id": room_id}
    row = StoredJob(digest=spec.plan, kind=spec.kind, engine=engine, spec=spec.record(), **whose)
    with store.write() as session:
        session.add(row)
    return row.id


def claim(store: Store, engine: str, limits: JobLimits, shared_memory: int | None = None) -> StoredJob | None:
    """Take the job whose turn it is; it is "starting" then. `None` where there is none, or no room for it.

    `shared_memory`: bytes that all jobs of the engine share, where it runs them on one machine. A job that needs more than is left waits.
    """
    with store.read() as session:  # a transaction that writes keeps others from writing
        waiting = session.scalar(select(StoredJob.id).where(StoredJob.engine == engine, StoredJob.state == "queued").limit(1))
    if waiting is None:
        return None
    active = aliased(StoredJob)
    is_active = (active.engine == engine, active.state.in_(ACTIVE))
    used = select(func.coalesce(func.sum(cast(active.spec["devices"].as_string(), Integer)), 0)).where(*is_active).scalar_subquery()
    running = select(func.count()).select_from(active).where(*is_active).scalar_subquery()
    needed, held = _host_bytes(StoredJob), select(func.coalesce(func.sum(_host_bytes(active)), 0)).where(*is_active).scalar_subquery()
    has_memory = [] if shared_memory is None else [or_(needed == 0, held == 0, needed + held <= shared_memory)]
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
    """The memory that a job needs; jobs of before say nothing of it."""
    return func.coalesce(cast(job.spec["host_bytes"].as_string(), BigInteger), 0)


def _head(engine: str, limits: JobLimits) -> Any:
    """The id of the job whose turn it is."""
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
    """How many jobs each person, or each project, has running on the engine, and when one of theirs was last claimed."""
    running = func.sum(case((StoredJob.state.in_(ACTIVE), 1), else_=0))
    served = func.coalesce(func.max(StoredJob.started), 0.0)
    columns = (column.label("whose"), running.label("running"), served.label("served"))
    return select(*columns).where(StoredJob.engine == engine).group_by(column).subquery()


def active_jobs(store: Store, engine: str) -> Sequence[StoredJob]:
    """The jobs that an engine has, or is being given."""
    with store.read() as session:
        wanted = select(StoredJob).where(StoredJob.engine == engine, StoredJob.state.in_(ACTIVE))
        return session.scalars(wanted.order_by(StoredJob.started)).all()


def mark_running(store: Store, job_id: str, native: str) -> None:
    """The engine has the job, under this id."""
    with store.write() as session:
        session.execute(update(StoredJob).where(StoredJob.id == job_id, StoredJob.state.in_(ACTIVE)).values(state="running", native=native))


def ask_to_cancel(store: Store, job_id: str) -> str:
    """Cancel a job that waits, or note that one that runs is to be ended; its state then. Nothing happens to one that has ended."""
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
    """How a job ended: `state` is one of `ENDED`; `figures` are those of the plan, by tier."""

    state: str
    summary: Mapping[str, Any]
    problem: str = ""
    figures: Mapping[str, Mapping[str, Any]] | None = None
    version: str = ""


def finish(store: Store, job_id: str, result: JobResult) -> bool:
    """Write down how a job ended, once, and the figures of its plan with it; whether it had not ended before."""
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
