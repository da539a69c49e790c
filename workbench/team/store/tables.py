"""The database tables.

Secrets (cookies, tokens, links, invitations) are stored only as SHA-256: 256 random bits need no slow hash. Times are
seconds since 1970, UTC. Public IDs are random. A plan is stored once under the digest of its canonical document. A room
is its log only; its state is obtained by replay.
"""

from typing import Annotated, Any

from sqlalchemy import JSON, ForeignKey, Index, MetaData, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from workbench.team.store.store import new_id, now

NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""Constraint names, because SQLite migrations can only change named constraints."""


NewId = Annotated[str, mapped_column(primary_key=True, default=new_id)]
Present = Annotated[float, mapped_column(default=now)]
"""A time column that defaults to the time of insertion."""


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {dict[str, Any]: JSON, list[str]: JSON}  # noqa: RUF012 - SQLAlchemy reads it


class User(Base):
    """A user. Inactive users cannot sign in; an `admin` has access to everything."""

    __tablename__ = "user"
    id: Mapped[NewId]
    name: Mapped[str] = mapped_column(unique=True)  # the name that colleagues type
    display: Mapped[str]
    email: Mapped[str | None]
    admin: Mapped[bool] = mapped_column(default=False)
    active: Mapped[bool] = mapped_column(default=True)
    created: Mapped[Present]


class Identity(Base):
    """An external identity: an OpenID Connect issuer and `sub`, or a hub and user name."""

    __tablename__ = "identity"
    issuer: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)


class Password(Base):
    __tablename__ = "password"
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), primary_key=True)
    hash: Mapped[str]
    changed: Mapped[float]


class Login(Base):
    """A signed-in browser; `digest` is the cookie's."""

    __tablename__ = "login"
    digest: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    way: Mapped[str]  # "local", "oidc", "hub"
    agent: Mapped[str] = mapped_column(default="")
    created: Mapped[Present]
    expires: Mapped[float]
    revoked: Mapped[float | None]


class Token(Base):
    """An API token; `scopes` restrict it."""

    __tablename__ = "token"
    id: Mapped[NewId]
    digest: Mapped[str] = mapped_column(unique=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    name: Mapped[str]
    scopes: Mapped[list[str]]
    created: Mapped[Present]
    expires: Mapped[float | None]
    used: Mapped[float | None]
    revoked: Mapped[float | None]


class Invitation(Base):
    """A single-use link for an account, a project role or administration; with `user_id` a password reset."""

    __tablename__ = "invitation"
    digest: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str | None] = mapped_column(ForeignKey("project.id"))
    role: Mapped[str | None]
    admin: Mapped[bool] = mapped_column(default=False)
    user_id: Mapped[str | None] = mapped_column(ForeignKey("user.id"))
    note: Mapped[str] = mapped_column(default="")
    by: Mapped[str | None] = mapped_column(ForeignKey("user.id"))
    created: Mapped[Present]
    expires: Mapped[float]
    used_by: Mapped[str | None] = mapped_column(ForeignKey("user.id"), index=True)


class Project(Base):
    """A group of plans, rooms, programs, jobs and members. Each user has one personal project: `personal_of`."""

    __tablename__ = "project"
    id: Mapped[NewId]
    slug: Mapped[str] = mapped_column(unique=True)  # in addresses
    name: Mapped[str]
    description: Mapped[str] = mapped_column(Text, default="")
    personal_of: Mapped[str | None] = mapped_column(ForeignKey("user.id"), unique=True)
    created: Mapped[Present]
    archived: Mapped[float | None]


class Member(Base):
    """A user's role in a project: student, viewer, editor, runner, owner, in increasing order."""

    __tablename__ = "member"
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), primary_key=True, index=True)
    role: Mapped[str]
    since: Mapped[Present]


class RegisteredProgram(Base):
    """A program, run after an owner `approved` its files: `digest` ensures that they are what runs."""

    __tablename__ = "program"
    __table_args__ = (UniqueConstraint("project_id", "name"),)
    id: Mapped[NewId]
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), index=True)
    name: Mapped[str]
    target: Mapped[str]  # "module:function", as in a plan document
    kind: Mapped[str]  # "git" or "wheel"
    locator: Mapped[str]  # the repository's address and commit, or the wheel's file name
    digest: Mapped[str | None]
    size: Mapped[int] = mapped_column(default=0)  # bytes of the fetched files
    state: Mapped[str] = mapped_column(default="added")  # "added", "fetched", "approved", "withdrawn", "failed"
    problem: Mapped[str] = mapped_column(Text, default="")
    by: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    created: Mapped[Present]
    approved_by: Mapped[str | None] = mapped_column(ForeignKey("user.id"))
    approved: Mapped[float | None]


class StoredPlan(Base):
    """An immutable plan document by the SHA-256 of its canonical text. The other columns are for searching."""

    __tablename__ = "plan"
    digest: Mapped[str] = mapped_column(primary_key=True)
    document: Mapped[str] = mapped_column(Text)
    target: Mapped[str]  # the program: a model of the zoo, or "module:function"
    mesh: Mapped[str]
    devices: Mapped[int]
    hardware: Mapped[str] = mapped_column(default="")
    layout: Mapped[str] = mapped_column(Text, default="")
    dims: Mapped[list[str]]
    created: Mapped[Present]


class GalleryEntry(Base):
    """A plan in a project's gallery; `forked_from` is the entry it was copied from."""

    __tablename__ = "entry"
    id: Mapped[NewId]
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), index=True)
    digest: Mapped[str] = mapped_column(ForeignKey("plan.digest"), index=True)
    name: Mapped[str]
    note: Mapped[str] = mapped_column(Text, default="")
    author_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    room_id: Mapped[str | None] = mapped_column(ForeignKey("room.id"))
    forked_from: Mapped[str | None] = mapped_column(ForeignKey("entry.id"))
    created: Mapped[Present]
    withdrawn: Mapped[float | None]


class StoredFigures(Base):
    """A plan's figures at one tier; `thumbnail` is an SVG, `version` is the workbench's."""

    __tablename__ = "figures"
    digest: Mapped[str] = mapped_column(ForeignKey("plan.digest"), primary_key=True)
    tier: Mapped[str] = mapped_column(primary_key=True)  # "planned", "partitioned", "compiled", "measured"
    version: Mapped[str]
    values: Mapped[dict[str, Any]]
    thumbnail: Mapped[str] = mapped_column(Text, default="")
    job_id: Mapped[str | None]
    created: Mapped[Present]


class StoredRoom(Base):
    """A room for shared editing: `first` is the initial plan; later changes are in the log."""

    __tablename__ = "room"
    id: Mapped[NewId]
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), index=True)
    name: Mapped[str]
    program_id: Mapped[str | None] = mapped_column(ForeignKey("program.id"))  # `None` for zoo models
    first: Mapped[str] = mapped_column(ForeignKey("plan.digest"))
    by: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    created: Mapped[Present]
    touched: Mapped[Present]
    closed: Mapped[float | None]


class LogEntry(Base):
    """A room's log entry; `seq` counts from 1 without gaps, `digest` is of the present plan afterwards."""

    __tablename__ = "log"
    room_id: Mapped[str] = mapped_column(ForeignKey("room.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    author_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    kind: Mapped[str]
    body: Mapped[dict[str, Any]]
    digest: Mapped[str]
    created: Mapped[Present]


class Comment(Base):
    __tablename__ = "comment"
    id: Mapped[NewId]
    room_id: Mapped[str] = mapped_column(ForeignKey("room.id"))
    node: Mapped[int]
    author_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    text: Mapped[str] = mapped_column(Text)
    created: Mapped[Present]
    removed: Mapped[float | None]
    __table_args__ = (Index("ix_comment_node", "room_id", "node"),)


class StoredJob(Base):
    """A job on the team's devices. `native` is the engine's ID; events are in the folder named by `id`."""

    __tablename__ = "job"
    id: Mapped[NewId]
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), index=True)
    author_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    digest: Mapped[str] = mapped_column(ForeignKey("plan.digest"), index=True)
    room_id: Mapped[str | None] = mapped_column(ForeignKey("room.id"))
    kind: Mapped[str]  # "run", "compile" or "search"
    engine: Mapped[str]  # "here", "slurm", "ray", "kubernetes"
    spec: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(default="queued", index=True)  # "queued", "starting", "running", "done", "failed", "cancelled"
    native: Mapped[str | None]
    summary: Mapped[dict[str, Any]] = mapped_column(default=dict)
    problem: Mapped[str] = mapped_column(Text, default="")
    created: Mapped[Present]
    started: Mapped[float | None]
    ended: Mapped[float | None]
    cancel_asked: Mapped[float | None]


class Share(Base):
    """A secret link that gives signed-in users a role in a room, or lets anybody read a plan."""

    __tablename__ = "share"
    id: Mapped[NewId]
    digest: Mapped[str] = mapped_column(unique=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), index=True)
    room_id: Mapped[str | None] = mapped_column(ForeignKey("room.id"))
    entry_id: Mapped[str | None] = mapped_column(ForeignKey("entry.id"))
    role: Mapped[str]
    by: Mapped[str] = mapped_column(ForeignKey("user.id"))
    created: Mapped[Present]
    expires: Mapped[float]
    revoked: Mapped[float | None]


class Guest(Base):
    """A user who opened a link to a room, and has its role while the link is valid."""

    __tablename__ = "guest"
    share_id: Mapped[str] = mapped_column(ForeignKey("share.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), primary_key=True, index=True)
    since: Mapped[Present]


class Assignment(Base):
    """An exercise handed out to a class, with its initial plan and deadline.

    `zone` is the deadline's time zone, `size` the maximum group size, `ranked` the question whose plans are ranked, if
    any. `outline` has the exercise's title, points and questions.
    """

    __tablename__ = "assignment"
    id: Mapped[NewId]
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), index=True)
    name: Mapped[str]
    exercise: Mapped[str] = mapped_column(Text)
    outline: Mapped[dict[str, Any]]
    first: Mapped[str] = mapped_column(ForeignKey("plan.digest"))
    deadline: Mapped[float | None]
    zone: Mapped[str] = mapped_column(default="UTC")
    size: Mapped[int] = mapped_column(default=1)
    ranked: Mapped[str] = mapped_column(default="")
    by: Mapped[str] = mapped_column(ForeignKey("user.id"))
    created: Mapped[Present]
    released: Mapped[float | None]  # when students were shown their grades
    withdrawn: Mapped[float | None]


class Baseline(Base):
    """A plan to compare with. Without `digest`, `reason` says why, or `job_id` is searching."""

    __tablename__ = "baseline"
    assignment_id: Mapped[str] = mapped_column(ForeignKey("assignment.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)  # "start", "data_parallel", "recipe" or "search"
    question: Mapped[str]
    detail: Mapped[str] = mapped_column(default="")  # which recipe
    digest: Mapped[str | None] = mapped_column(ForeignKey("plan.digest"))
    right: Mapped[bool]
    reason: Mapped[str] = mapped_column(Text, default="")
    job_id: Mapped[str | None] = mapped_column(ForeignKey("job.id"), index=True)


class StudentWork(Base):
    """Work of a student or group in a room. `card` is for the wall; `points` override the reached score."""

    __tablename__ = "work"
    room_id: Mapped[str] = mapped_column(ForeignKey("room.id"), primary_key=True)
    assignment_id: Mapped[str] = mapped_column(ForeignKey("assignment.id"), index=True)
    card: Mapped[dict[str, Any]] = mapped_column(default=dict)
    thumbnail: Mapped[str] = mapped_column(Text, default="")
    shown: Mapped[float | None]  # time of the card
    remark: Mapped[str] = mapped_column(Text, default="")
    points: Mapped[float | None]


class Participant(Base):
    """A user's room for an assignment, one per user and assignment. It gives the role of an editor in that room."""

    __tablename__ = "participant"
    assignment_id: Mapped[str] = mapped_column(ForeignKey("assignment.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), primary_key=True, index=True)
    room_id: Mapped[str] = mapped_column(ForeignKey("work.room_id"), index=True)
    since: Mapped[Present]


class GivenAnswer(Base):
    """An answer to a question with its verdict; `digest` is of a submitted plan. A `late` answer does not count."""

    __tablename__ = "answer"
    id: Mapped[NewId]
    room_id: Mapped[str] = mapped_column(ForeignKey("work.room_id"), index=True)
    author_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    question: Mapped[str]
    attempt: Mapped[int]
    text: Mapped[str] = mapped_column(Text, default="")  # of an answer that is not a plan
    digest: Mapped[str | None] = mapped_column(ForeignKey("plan.digest"))
    score: Mapped[float]
    most: Mapped[float]
    verdict: Mapped[dict[str, Any]]
    created: Mapped[Present]
    late: Mapped[bool]


class TeamHardware(Base):
    """A project's hardware: number of devices, price per device-hour, and engine."""

    __tablename__ = "catalogue"
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    hardware: Mapped[str]  # as in a plan document, "TPU v5e 4x4"
    dollars_per_device_hour: Mapped[float | None]
    engine: Mapped[str] = mapped_column(default="here")
    options: Mapped[dict[str, Any]]  # of the engine: partition, queue, image
    note: Mapped[str] = mapped_column(Text, default="")


class Setting(Base):
    __tablename__ = "setting"
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[dict[str, Any]]


class AuditEntry(Base):
    """An append-only entry. `user_id` is empty without a sign-in, `project_id` if it concerns the whole server."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    created: Mapped[float] = mapped_column(default=now, index=True)
    user_id: Mapped[str | None]
    project_id: Mapped[str | None] = mapped_column(index=True)
    action: Mapped[str]
    subject: Mapped[str] = mapped_column(default="")
    details: Mapped[dict[str, Any]] = mapped_column(default=dict)
    address: Mapped[str] = mapped_column(default="")
