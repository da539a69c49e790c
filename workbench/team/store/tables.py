"""The tables of a team's database.

Secrets (cookies, tokens, links, invitations) are stored as SHA-256 only: 256 random bits need no slow hash. Times are seconds since 1970,
UTC. Ids that people see in addresses are random. A plan is stored once, under the digest of its canonical document; a room is its log, and
nothing else: whatever it shows follows from replaying that.
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
"""Names of constraints: a migration on SQLite can only change what has a name."""


NewId = Annotated[str, mapped_column(primary_key=True, default=new_id)]
Present = Annotated[float, mapped_column(default=now)]
"""The time of a row that is added without one."""


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {dict[str, Any]: JSON, list[str]: JSON}  # noqa: RUF012 - SQLAlchemy reads it


class User(Base):
    """A person. One who is not `active` can sign in nowhere; `admin` may see and set everything of the server."""

    __tablename__ = "user"
    id: Mapped[NewId]
    name: Mapped[str] = mapped_column(unique=True)  # unique, what colleagues type
    display: Mapped[str]
    email: Mapped[str | None]
    admin: Mapped[bool] = mapped_column(default=False)
    active: Mapped[bool] = mapped_column(default=True)
    created: Mapped[Present]


class Identity(Base):
    """How somebody else vouches for a person: the issuer of OpenID Connect and its `sub`, or a hub and its user name."""

    __tablename__ = "identity"
    issuer: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)


class Password(Base):
    """The argon2 hash of a local account's password."""

    __tablename__ = "password"
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), primary_key=True)
    hash: Mapped[str]
    changed: Mapped[float]


class Login(Base):
    """One browser that is signed in; `digest` is of its cookie."""

    __tablename__ = "login"
    digest: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    way: Mapped[str]  # "local", "oidc", "hub"
    agent: Mapped[str] = mapped_column(default="")
    created: Mapped[Present]
    expires: Mapped[float]
    revoked: Mapped[float | None]


class Token(Base):
    """A key to the REST API that a person made for a script; it may do less than the person (`scopes`)."""

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
    """A link by which somebody makes an account, once; into a project with a role, or as an administrator. One for a
    `user_id` lets that person alone set a new password."""

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
    """Plans, rooms, programs and jobs that belong together, and the people who may see them. Each person has one alone: `personal_of`."""

    __tablename__ = "project"
    id: Mapped[NewId]
    slug: Mapped[str] = mapped_column(unique=True)  # in addresses
    name: Mapped[str]
    description: Mapped[str] = mapped_column(Text, default="")
    personal_of: Mapped[str | None] = mapped_column(ForeignKey("user.id"), unique=True)
    created: Mapped[Present]
    archived: Mapped[float | None]


class Member(Base):
    """A person's role in a project: student, viewer, editor, runner, owner; each may do what those before it may."""

    __tablename__ = "member"
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), primary_key=True, index=True)
    role: Mapped[str]
    since: Mapped[Present]


class RegisteredProgram(Base):
    """A program of the team's own: a commit of a git repository, or a wheel. Its code runs only once an owner has `approved` it, and only
    in a sandbox. `digest` is of the files that were fetched: what was approved is what runs."""

    __tablename__ = "program"
    __table_args__ = (UniqueConstraint("project_id", "name"),)
    id: Mapped[NewId]
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), index=True)
    name: Mapped[str]
    target: Mapped[str]  # "module:function", as in a plan document
    kind: Mapped[str]  # "git" or "wheel"
    locator: Mapped[str]  # the repository's address and commit, or the wheel's file name
    digest: Mapped[str | None]
    size: Mapped[int] = mapped_column(default=0)  # bytes of the files that were fetched
    state: Mapped[str] = mapped_column(default="added")  # "added", "fetched", "approved", "withdrawn", "failed"
    problem: Mapped[str] = mapped_column(Text, default="")
    by: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    created: Mapped[Present]
    approved_by: Mapped[str | None] = mapped_column(ForeignKey("user.id"))
    approved: Mapped[float | None]


class StoredPlan(Base):
    """A plan document, by the SHA-256 of its canonical text. It never changes. What stands beside the document is for searching."""

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
    """A plan as somebody put it into a project's gallery; `forked_from` is the entry that it began as."""

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
    """What a tier says of a plan: peak bytes, bytes sent, seconds of a step, whether it fits; `thumbnail` is an SVG. `version` is the
    workbench's, whose figures they are."""

    __tablename__ = "figures"
    digest: Mapped[str] = mapped_column(ForeignKey("plan.digest"), primary_key=True)
    tier: Mapped[str] = mapped_column(primary_key=True)  # "planned", "partitioned", "compiled", "measured"
    version: Mapped[str]
    values: Mapped[dict[str, Any]]
    thumbnail: Mapped[str] = mapped_column(Text, default="")
    job_id: Mapped[str | None]
    created: Mapped[Present]


class StoredRoom(Base):
    """A session that several people edit. `first` is the plan it began with; what happened since is its log."""

    __tablename__ = "room"
    id: Mapped[NewId]
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), index=True)
    name: Mapped[str]
    program_id: Mapped[str | None] = mapped_column(ForeignKey("program.id"))  # none: a program of the zoo
    first: Mapped[str] = mapped_column(ForeignKey("plan.digest"))
    by: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    created: Mapped[Present]
    touched: Mapped[Present]
    closed: Mapped[float | None]


class LogEntry(Base):
    """One thing that happened in a room, in the one order that all saw it in: `seq` counts from 1 without a gap. `kind` says what `body`
    holds (`team.planning.room_log`). `digest` is of the plan that was present afterwards."""

    __tablename__ = "log"
    room_id: Mapped[str] = mapped_column(ForeignKey("room.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    author_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    kind: Mapped[str]
    body: Mapped[dict[str, Any]]
    digest: Mapped[str]
    created: Mapped[Present]


class Comment(Base):
    """What somebody wrote on a node of a room's history."""

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
    """A command line that runs a plan, or compiles it, where the team's devices are. `native` is its id there; its events are in a folder
    of its own, named by `id`."""

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
    """A link with a secret in it, which gives whoever is signed in a role in one room, or lets anybody read one plan."""

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
    """Somebody who opened a link to a room, and has its role there as long as the link holds."""

    __tablename__ = "guest"
    share_id: Mapped[str] = mapped_column(ForeignKey("share.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), primary_key=True, index=True)
    since: Mapped[Present]


class Assignment(Base):
    """An exercise as it was handed to a class: its document, the plan that it begins with, and until when answers count. `zone` is the time
    zone that the deadline was said in, `size` how many students work together at most, `ranked` the question whose plans are compared by
    all, if there is one. `outline` is what is shown of the exercise: its title, points and questions."""

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
    """A plan that those of a class are compared with: data parallelism alone, the best of the recipes, what a search found. Without a
    `digest` there is none: `reason` says why, or the search is the job `job_id`. `right` is whether it answers the question."""

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
    """The work of a student, or of a few together, on an assignment, and the room that it is done in. `card` and `thumbnail` are what the
    wall shows of the plan now; `remark` and `points` are the teacher's: points in place of those that were reached, if any."""

    __tablename__ = "work"
    room_id: Mapped[str] = mapped_column(ForeignKey("room.id"), primary_key=True)
    assignment_id: Mapped[str] = mapped_column(ForeignKey("assignment.id"), index=True)
    card: Mapped[dict[str, Any]] = mapped_column(default=dict)
    thumbnail: Mapped[str] = mapped_column(Text, default="")
    shown: Mapped[float | None]  # when the card was made
    remark: Mapped[str] = mapped_column(Text, default="")
    points: Mapped[float | None]


class Participant(Base):
    """Who works on an assignment, and in which room: one for each person and assignment. It gives the role of an editor in that room."""

    __tablename__ = "participant"
    assignment_id: Mapped[str] = mapped_column(ForeignKey("assignment.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("user.id"), primary_key=True, index=True)
    room_id: Mapped[str] = mapped_column(ForeignKey("work.room_id"), index=True)
    since: Mapped[Present]


class GivenAnswer(Base):
    """An answer to a question of an assignment, and its verdict; `digest` is of the plan, where it is one. A `late` one does not count."""

    __tablename__ = "answer"
    id: Mapped[NewId]
    room_id: Mapped[str] = mapped_column(ForeignKey("work.room_id"), index=True)
    author_id: Mapped[str] = mapped_column(ForeignKey("user.id"), index=True)
    question: Mapped[str]
    attempt: Mapped[int]
    text: Mapped[str] = mapped_column(Text, default="")  # of an answer that is no plan
    digest: Mapped[str | None] = mapped_column(ForeignKey("plan.digest"))
    score: Mapped[float]
    most: Mapped[float]
    verdict: Mapped[dict[str, Any]]
    created: Mapped[Present]
    late: Mapped[bool]


class TeamHardware(Base):
    """A kind of hardware as the team has it: how many devices, at which price per device and hour, run by which engine."""

    __tablename__ = "catalogue"
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    hardware: Mapped[str]  # as in a plan document, "TPU v5e 4x4"
    dollars_per_device_hour: Mapped[float | None]
    engine: Mapped[str] = mapped_column(default="here")
    options: Mapped[dict[str, Any]]  # of the engine: partition, queue, image
    note: Mapped[str] = mapped_column(Text, default="")


class Setting(Base):
    """A limit or a choice that an administrator set."""

    __tablename__ = "setting"
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[dict[str, Any]]


class AuditEntry(Base):
    """Who did what to what, and when: it is only added to. `user_id` is empty for somebody who was not signed in, `project_id` where it
    concerns the whole server."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    created: Mapped[float] = mapped_column(default=now, index=True)
    user_id: Mapped[str | None]
    project_id: Mapped[str | None] = mapped_column(index=True)
    action: Mapped[str]
    subject: Mapped[str] = mapped_column(default="")
    details: Mapped[dict[str, Any]] = mapped_column(default=dict)
    address: Mapped[str] = mapped_column(default="")


Figures, Room, Job, CatalogueEntry = StoredFigures, StoredRoom, StoredJob, TeamHardware  # names that other rooms have classes of
