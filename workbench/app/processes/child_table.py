"""The processes and threads that a server has for long: how each is started, what happens when it dies, and who says that it is missing.

Health reports, and the tests that kill each of them, go through `ALL_CHILDREN`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HOPELESS = 120.0
"""Seconds after which what is needed and has not come back is not expected to: whoever runs the server should start it again."""


@dataclass(frozen=True, slots=True)
class ChildState:
    """How often a child ended although it was needed, and for how many seconds it is missing; 0 while it is there, or not needed now."""

    deaths: int
    missing_seconds: float


@dataclass(frozen=True, slots=True)
class ServerChild:
    """A kind of child. `is_needed`: the server is of no use without it; `is_reported`: health counts its deaths, else the question or the
    job that it had says so."""

    name: str
    starts: str
    when_it_dies: str
    is_needed: bool = False
    is_reported: bool = True


FORK_SERVER = ServerChild(
    "fork server",
    "with the server",
    "it is started again after 0.1 s, twice as long each time, at most 30 s; boards and rooms that are open stay, others wait for it",
    is_needed=True,
)
BOARDS = ServerChild(
    "boards",
    "with a visitor",
    "another process takes the board up from its journal",
)
ROOMS = ServerChild(
    "rooms",
    "with the first person who enters; on a cluster a relay stands for it",
    "another process replays the room's log",
)
BROKER = ServerChild(
    "partition broker",
    "with the server",
    "it is started again as the fork server is; rooms keep planned figures meanwhile, and ask again what was pending",
)
PARTITIONER = ServerChild(
    "partitioner",
    "with the first question",
    "its question fails and says so; the next question starts another",
)
DESCRIBERS = ServerChild(
    "document describers",
    "with the first document",
    "the document that it read is an error; the next one starts another",
)
JOB_LANES = ServerChild(
    "job lanes",
    "with the server: a thread for each engine",
    "the next turn goes on from the store; jobs that run are not touched",
)
LIBTPU = ServerChild(
    "libtpu worker",
    "with the first question about a TPU, by the partitioner",
    "its question fails and says so; the next question starts another",
    is_reported=False,
)
WORKERS = ServerChild(
    "workers",
    "with a run, a compilation or a search of a board",
    "the job fails and says so; the next job starts another",
    is_reported=False,
)

ALL_CHILDREN = (FORK_SERVER, BOARDS, ROOMS, BROKER, PARTITIONER, DESCRIBERS, JOB_LANES, LIBTPU, WORKERS)

States = Mapping[str, ChildState]
"""By the name of the child."""


def health_report(states: States) -> tuple[dict[str, Any], bool]:
    """What a server says of its children, `degraded` and `deaths` by name, and whether it can still be of use."""
    reported = [(each, states[each.name]) for each in ALL_CHILDREN if each.is_reported and each.name in states]
    missing = {child.name: round(state.missing_seconds, 1) for child, state in reported if state.missing_seconds}
    is_alive = not any(child.is_needed and state.missing_seconds > HOPELESS for child, state in reported)
    report = {"alive": is_alive, "degraded": list(missing), "missing_seconds": missing}
    return report | {"deaths": {child.name: state.deaths for child, state in reported if state.deaths}}, is_alive
