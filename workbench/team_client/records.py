"""What a team's server answers, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ENDED_STATES = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class TeamProject:
    """A project, and the role that one has in it; `personal` is one's own."""

    slug: str
    name: str
    role: str
    personal: bool
    description: str = ""


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """A plan in a gallery: `id` is of the entry, `digest` of the document; `figures` are what each tier says, in bytes and seconds."""

    id: str
    project: str
    digest: str
    name: str
    note: str
    target: str
    mesh: str
    devices: int
    hardware: str
    layout: str
    author: str
    created: float
    page: str
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class TeamJob:
    """A job as it was when the server was asked; `summary` are its figures, `problem` is why it failed."""

    id: str
    project: str
    digest: str
    kind: str
    engine: str
    state: str
    author: str
    created: float
    page: str
    problem: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED_STATES


@dataclass(frozen=True, slots=True)
class TeamAssignment:
    """An exercise as it was handed to a class: its `questions`, each with `name`, `kind`, `points` and `ask`, and the `deadline` in seconds
    since 1970. `begun` is how many have begun; `room` is where one's own work is, empty before."""

    id: str
    project: str
    name: str
    points: float
    questions: tuple[Mapping[str, Any], ...]
    deadline: float | None
    deadline_text: str
    begun: int
    page: str
    room: str = ""
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class TeamVerdict:
    """What an answer was told: its `score` of `most`, the `reasons` why it is not right, and `hints`; a `late` one does not count."""

    question: str
    attempt: int
    score: float
    most: float
    late: bool
    reasons: tuple[str, ...]
    hints: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.reasons


def read_assignment(record: Mapping[str, Any]) -> TeamAssignment:
    same = ("id", "project", "name", "points", "deadline", "deadline_text", "begun", "page")
    work = record["work"] or {"room": "", "score": 0.0}
    own = {"questions": tuple(record["questions"]), "room": work["room"], "score": work["score"]}
    return TeamAssignment(**{key: record[key] for key in same}, **own)


def read_verdict(record: Mapping[str, Any]) -> TeamVerdict:
    reasons = tuple(each["reason"] for each in record["checks"] if not each["is_met"])
    same = ("question", "attempt", "score", "most", "late")
    return TeamVerdict(**{key: record[key] for key in same}, reasons=reasons, hints=tuple(record["hints"]))


def read_project(record: Mapping[str, Any]) -> TeamProject:
    return TeamProject(record["slug"], record["name"], record["role"], record["personal"], record["description"])


def read_plan(record: Mapping[str, Any]) -> TeamPlan:
    same = ("id", "project", "digest", "name", "note", "target", "mesh", "devices", "hardware", "layout", "created", "page", "figures")
    return TeamPlan(**{key: record[key] for key in same}, author=record["author"]["name"])


def read_job(record: Mapping[str, Any]) -> TeamJob:
    same = ("id", "project", "digest", "kind", "engine", "state", "created", "page", "problem", "summary")
    return TeamJob(**{key: record[key] for key in same}, author=record["author"]["name"])
