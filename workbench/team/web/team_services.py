"""Interfaces and records that handlers use, in one frozen `TeamServices` at `application.settings["team"]`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

from workbench.app.processes.child_table import States
from workbench.team.accounts.revocations import Revocations
from workbench.team.store.store import Store
from workbench.team.store.tables import RegisteredProgram

Answer = TypeVar("Answer")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class DescribedPlan:
    """A planner's description of a plan document.

    `digest` is of the canonical `document`. `figures` maps tiers ("planned", "partitioned") to `peak_bytes`,
    `sent_bytes`, `step_seconds` and `fits`, each `None` if unknown. `thumbnail` is an SVG of the layout.
    """

    document: str
    digest: str
    target: str
    mesh: str
    devices: int
    hardware: str
    layout: str
    dims: tuple[str, ...]
    figures: Mapping[str, Mapping[str, Any]]
    thumbnail: str = ""


@dataclass(frozen=True, slots=True)
class ReadExercise:
    """An exercise's `name`, `title`, `points` and `questions` in `outline`, and its initial plan."""

    outline: Mapping[str, Any]
    first: DescribedPlan


@dataclass(frozen=True, slots=True)
class GradedAnswer:
    """An answer with its verdict: `hints`, and `checks` (`what`, `is_met`, `reason`, `points`, `hidden`)."""

    question: str
    attempt: int
    text: str
    plan: DescribedPlan | None
    score: float
    most: float
    verdict: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReplayedRoom:
    """The `steps` of a room, each with `text`, `name`, `mesh`, `layout` and `figures`, and the `present` plan."""

    steps: Sequence[Mapping[str, Any]]
    present: DescribedPlan


@dataclass(frozen=True, slots=True)
class FoundBaseline:
    """A baseline; `reason` says why there is no plan, or which goal a plan that is not `right` misses."""

    name: str
    detail: str
    plan: DescribedPlan | None
    right: bool
    reason: str


@dataclass(frozen=True, slots=True)
class FoundBaselines:
    """The initial plan of a question, the decisions that a search may not change, and the baselines."""

    start: DescribedPlan
    pins: Mapping[str, str]
    found: Sequence[FoundBaseline]


class Planner(Protocol):
    """A service that uses JAX in other processes."""

    def is_ready(self) -> bool:
        """Return whether it can answer."""

    def children(self) -> States:
        """Return the states of its processes."""

    async def describe_document(self, text: str, program: RegisteredProgram | None) -> DescribedPlan:
        """Validate and describe a document; `program` is its registered program, if any. Raises `WorkbenchError`."""

    async def ask(self, kind: type[Answer], name: str, **given: Any) -> Answer:
        """Ask a question of `team.planning.room_process.ANSWERS`, with its arguments `given`. Raises `WorkbenchError`."""


class Rooms(Protocol):
    """The open rooms."""

    def count(self) -> int:
        """Return the number of open rooms."""

    def children(self) -> States:
        """Return the states of their processes."""

    def people_in(self, room_id: str) -> Sequence[str]:
        """Return the IDs of users who have a room open."""

    async def push_plan(self, room_ids: Sequence[str], pushed: Any) -> None:
        """Send a plan (`team.rooms.room_records.PushedPlan`) to rooms, open or not."""

    async def changed(self, room_ids: Sequence[str]) -> None:
        """Refresh rooms after changes of roles, comments, deadlines or closing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A requested job, as in `team.jobs.job_spec.JobSpec`; `program_id` is the approved program of the plan."""

    project_id: str
    author_id: str
    digest: str
    kind: Literal["run", "compile", "search"] = "run"
    engine: str = "here"
    steps: int = 20
    check: bool = False
    hosts: int = 1
    processes: int = 1
    minutes: float = 30.0
    memory: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    room_id: str | None = None
    program_id: str | None = None


class JobService(Protocol):
    """The job queue."""

    def is_ready(self) -> bool:
        """Return whether jobs can start."""

    def children(self) -> States:
        """Return the states of the threads that follow jobs."""

    async def submit(self, request: JobRequest) -> str:
        """Queue a job and return its ID. Raises `WorkbenchError` for an unknown engine or exceeded limits."""

    async def cancel(self, job_id: str) -> None:
        """Request the end of a job; an ended job is unchanged."""

    async def events(self, job_id: str, after: int, most: int) -> Sequence[Mapping[str, Any]]:
        """Return at most `most` events of a job after number `after`, each with its number `seq`."""


class Programs(Protocol):
    """Registered programs of projects. Each method returns after the program's row is updated."""

    async def add(
        self, project_id: str, author_id: str, name: str, target: str, kind: Literal["git", "wheel"], locator: str, wheel: bytes | None
    ) -> str:
        """Register and fetch a program, and return its ID. Raises `WorkbenchError` for a taken name or a failed fetch."""

    async def approve(self, program_id: str, approver_id: str, digest: str) -> None:
        """Approve a program to run. Raises `WorkbenchError` unless the files have this digest."""

    async def withdraw(self, program_id: str) -> None:
        """Withdraw a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamServices:
    """The services of a server. `address` is public, such as `https://plans.example.org/prefix`; `secret_key` signs
    page sessions and sign-in cookies. Unavailable services are `None`; a gallery-only server has no planner.

    **Invariants**

    - `prefix` is the path of `address`: empty, or with a leading and no trailing `/`.
    """

    store: Store
    revocations: Revocations
    secret_key: bytes = field(repr=False)
    address: str
    data: Path
    config: Any = None
    planner: Planner | None = None
    rooms: Rooms | None = None
    jobs: JobService | None = None
    programs: Programs | None = None
    sign_in: Any = None
    """Sign-in methods: `team.accounts.jupyterhub_login.SignInWays`."""
    sandbox: Any = None
    """Isolation of programs: `team.sandbox.resource_limits.SandboxAbility`; `None` if no registered programs run."""
    owners_approve: str = "shared"
    """Projects whose owners approve programs: "shared", "all" or "none"; administrators approve all others."""
    origins: tuple[str, ...] = ()
    """Further public origins, such as `https://other.example.org`."""
    behind_proxy: bool = False
    """Whether only a proxy can connect, which sets `X-Forwarded-For`."""
    open_metrics: bool = False
    """Whether `/metrics` is public instead of limited to administrators."""

    def children(self) -> States:
        return {
            name: state for part in (self.planner, self.rooms, self.jobs) if part is not None for name, state in part.children().items()
        }

    @property
    def prefix(self) -> str:
        return urlsplit(self.address).path.rstrip("/")

    @property
    def is_https(self) -> bool:
        return urlsplit(self.address).scheme == "https"

    @property
    def own_origins(self) -> frozenset[str]:
        """The origins of this server's pages; on the loopback address all of its names."""
        parts = urlsplit(self.address.lower())
        port = f":{parts.port}" if parts.port else ""
        origins = {f"{parts.scheme}://{parts.netloc}"}
        if parts.netloc.removesuffix(port) in LOOPBACK:
            origins |= {f"{parts.scheme}://{name}{port}" for name in LOOPBACK}
        return frozenset(origins | {origin.lower().rstrip("/") for origin in self.origins})

    @property
    def cookie_name(self) -> str:
        """Name of the login cookie. `__Host-` keeps sibling hosts out, but requires HTTPS and the path `/`."""
        return "__Host-workbench" if self.is_https and not self.prefix else "workbench"

    @property
    def cookie_options(self) -> dict[str, Any]:
        return {"path": f"{self.prefix}/" if self.prefix else "/", "secure": self.is_https, "httponly": True, "samesite": "Lax"}

    def url(self, path: str) -> str:
        return self.address.rstrip("/") + path
