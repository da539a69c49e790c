"""What the handlers of the server work with: one frozen record, made at the start, in `application.settings["team"]`."""

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
    """What a planner says of a plan document: its canonical text and that text's digest, what the gallery searches by, and figures by tier
    ("planned", "partitioned"): `peak_bytes`, `sent_bytes`, `step_seconds` and `fits`, each `None` where the tier does not say;
    `thumbnail` is an SVG of its layout."""

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
    """What a planner says of an exercise: `outline` is its `name`, `title`, `points` and `questions`, each with `name`, `kind`, `points`
    and `ask`; `first` is the plan that it begins with."""

    outline: Mapping[str, Any]
    first: DescribedPlan


@dataclass(frozen=True, slots=True)
class GradedAnswer:
    """An answer to a question, a `plan` or a `text`, and its verdict: `checks`, each with `what`, `is_met`, `reason`, `points` and
    `hidden`, and `hints`."""

    question: str
    attempt: int
    text: str
    plan: DescribedPlan | None
    score: float
    most: float
    verdict: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReplayedRoom:
    """What was done in a room: `steps`, each with `text`, `name`, `mesh`, `layout` and `figures` of the plan after it, and the `present`
    plan."""

    steps: Sequence[Mapping[str, Any]]
    present: DescribedPlan


@dataclass(frozen=True, slots=True)
class FoundBaseline:
    """What plans are compared with: `name` is "start", "data_parallel", "recipe" or "search", `detail` which recipe. Without a plan the
    reason says why there is none; with one that is not `right`, which goal it misses."""

    name: str
    detail: str
    plan: DescribedPlan | None
    right: bool
    reason: str


@dataclass(frozen=True, slots=True)
class FoundBaselines:
    """The plan that a question starts from, the decisions of it that a search may not change, and what plans are compared with."""

    start: DescribedPlan
    pins: Mapping[str, str]
    found: Sequence[FoundBaseline]


class Planner(Protocol):
    """Whoever can import JAX: a process apart."""

    def is_ready(self) -> bool:
        """Whether it would answer."""

    def children(self) -> States:
        """How its processes are."""

    async def describe_document(self, text: str, program: RegisteredProgram | None) -> DescribedPlan:
        """Validate a document, with the program that it names unless that is of the zoo. Raises `WorkbenchError`."""

    async def ask(self, kind: type[Answer], name: str, **given: Any) -> Answer:
        """The answer to a question about the zoo, one of `team.planning.room_process.ANSWERS`, which says what is `given`. Raises
        `WorkbenchError`."""


class Rooms(Protocol):
    """The rooms that are open."""

    def count(self) -> int:
        """How many."""

    def children(self) -> States:
        """How their processes are."""

    def people_in(self, room_id: str) -> Sequence[str]:
        """The ids of the people who have a room open now."""

    async def push_plan(self, room_ids: Sequence[str], pushed: Any) -> None:
        """Send a plan (`team.rooms.room_records.PushedPlan`) into rooms, open or not."""

    async def changed(self, room_ids: Sequence[str]) -> None:
        """Roles, comments or the deadline of these rooms may be others now, or they were closed: show what the store has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What somebody asks a job for, as in `team.jobs.job_spec.JobSpec`; `program_id` is of the approved program that the plan names."""

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
    """Whoever takes jobs from the queue."""

    def is_ready(self) -> bool:
        """Whether jobs would start."""

    def children(self) -> States:
        """How what follows them is."""

    async def submit(self, request: JobRequest) -> str:
        """Put a job into the queue; its id. Raises `WorkbenchError` for an engine that is not here, or more than is allowed."""

    async def cancel(self, job_id: str) -> None:
        """Ask for a job to be ended; one that has ended stays as it is."""

    async def events(self, job_id: str, after: int, most: int) -> Sequence[Mapping[str, Any]]:
        """The events of a job from number `after + 1` on, each with its number as `seq`."""


class Programs(Protocol):
    """Whoever fetches, keeps and shows the programs of projects. Each method answers when the row of the program says so."""

    async def add(
        self, project_id: str, author_id: str, name: str, target: str, kind: Literal["git", "wheel"], locator: str, wheel: bytes | None
    ) -> str:
        """Register a program and fetch its files; its id. Raises `WorkbenchError` for a name that is taken, or what cannot be fetched."""

    async def approve(self, program_id: str, approver_id: str, digest: str) -> None:
        """Let it run. Raises `WorkbenchError` if the files that were fetched have another digest than the one that was seen."""

    async def withdraw(self, program_id: str, author_id: str) -> None:
        """Let it run no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamServices:
    """`address` is the server as people reach it, `https://plans.example.org/prefix`; `secret_key` signs the sessions of pages and the
    cookies of a sign-in under way. What is `None` is not there: a server for the gallery alone has no planner.

    **Invariants**

    - `prefix` is empty or begins with `/`, and does not end with one; it is the path of `address`.
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
    """The ways to sign in: `team.accounts.hub.SignInWays`."""
    sandbox: Any = None
    """What isolates programs here: `team.sandbox.limits.SandboxAbility`; `None` where none of the team's own runs."""
    owners_approve: str = "shared"
    """Of which projects the owners approve programs: "shared" ones, "all", "none" (administrators approve all others)."""
    origins: tuple[str, ...] = ()
    """Further origins, `https://other.example.org`, under which people reach it."""
    behind_proxy: bool = False
    """Whether only a proxy can connect, which then says in `X-Forwarded-For` for whom."""
    open_metrics: bool = False
    """Whether `/metrics` answers anybody, and not administrators alone."""

    def children(self) -> States:
        """How the processes and threads are that it has for long."""
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
        """The origins of this server's pages; a server on the loopback address has all names of that."""
        parts = urlsplit(self.address.lower())
        port = f":{parts.port}" if parts.port else ""
        own = {f"{parts.scheme}://{parts.netloc}"}
        if parts.netloc.removesuffix(port) in LOOPBACK:
            own |= {f"{parts.scheme}://{name}{port}" for name in LOOPBACK}
        return frozenset(own | {each.lower().rstrip("/") for each in self.origins})

    @property
    def cookie_name(self) -> str:
        """Of the login. A `__Host-` cookie cannot be set by a neighbouring host, but takes HTTPS and the path `/`."""
        return "__Host-workbench" if self.is_https and not self.prefix else "workbench"

    @property
    def cookie_options(self) -> dict[str, Any]:
        """Of every cookie of the server."""
        return {"path": f"{self.prefix}/" if self.prefix else "/", "secure": self.is_https, "httponly": True, "samesite": "Lax"}

    def url(self, path: str) -> str:
        """The whole address of a path such as `/login`."""
        return self.address.rstrip("/") + path
