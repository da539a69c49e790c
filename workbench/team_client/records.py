"""Records of the team server's API responses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ENDED_STATES = ("done", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class TeamProject:
    """A project with your role in it; `personal` marks your own."""

    slug: str
    name: str
    role: str
    personal: bool
    description: str = ""


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """A plan in a gallery: `id` is the entry's, `digest` the document's; `figures` by tier are in bytes and seconds."""

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
    """A snapshot of a job. `summary` has its results, `problem` the reason of a failure."""

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
    """An exercise that was handed out to a class. Each of `questions` has `name`, `kind`, `points` and `ask`.
    `deadline` is in seconds since 1970. `begun` counts the submissions; `room` is your own, empty before you start.
    """

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
    """A grading: `score` out of `most`, `reasons` for lost points, and `hints`. A `late` answer does not count."""

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
    names = ("id", "project", "name", "points", "deadline", "deadline_text", "begun", "page")
    submission = record["work"] or {"room": "", "score": 0.0}
    others = {"questions": tuple(record["questions"]), "room": submission["room"], "score": submission["score"]}
    return TeamAssignment(**{key: record[key] for key in names}, **others)


def read_verdict(record: Mapping[str, Any]) -> TeamVerdict:
    reasons = tuple(check["reason"] for check in record["checks"] if not check["is_met"])
    names = ("question", "attempt", "score", "most", "late")
    return TeamVerdict(**{key: record[key] for key in names}, reasons=reasons, hints=tuple(record["hints"]))


def read_project(record: Mapping[str, Any]) -> TeamProject:
    return TeamProject(record["slug"], record["name"], record["role"], record["personal"], record["description"])


def read_plan(record: Mapping[str, Any]) -> TeamPlan:
    names = ("id", "project", "digest", "name", "note", "target", "mesh", "devices", "hardware", "layout", "created", "page", "figures")
    return TeamPlan(**{key: record[key] for key in names}, author=record["author"]["name"])


def read_job(record: Mapping[str, Any]) -> TeamJob:
    names = ("id", "project", "digest", "kind", "engine", "state", "created", "page", "problem", "summary")
    return TeamJob(**{key: record[key] for key in names}, author=record["author"]["name"])
