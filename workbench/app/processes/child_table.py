"""The long-lived children of a server, as used by health reports and by the tests that kill each of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HOPELESS = 120.0
"""Seconds after which a missing required child is not expected back, so that the server should be restarted."""


@dataclass(frozen=True, slots=True)
class ChildState:
    """Unexpected ends of a child, and seconds since it went missing; 0 if present or not needed."""

    deaths: int
    missing_seconds: float


@dataclass(frozen=True, slots=True)
class ServerChild:
    """A kind of child; `is_needed`: required by the server, `is_reported`: its deaths are in health reports."""

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
BOARDS = ServerChild("boards", "with a visitor", "another process takes the board up from its journal")
ROOMS = ServerChild(
    "rooms", "with the first person who enters; on a cluster a relay stands for it", "another process replays the room's log"
)
BROKER = ServerChild(
    "partition broker",
    "with the server",
    "it is started again as the fork server is; rooms keep planned figures meanwhile, and ask again what was pending",
)
PARTITIONER = ServerChild("partitioner", "with the first question", "its question fails and says so; the next question starts another")
DESCRIBERS = ServerChild(
    "document describers", "with the first document", "the document that it read is an error; the next one starts another"
)
JOB_LANES = ServerChild(
    "job lanes", "with the server: a thread for each engine", "the next turn goes on from the store; jobs that run are not touched"
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
"""States by name of the child."""


def health_report(states: States) -> tuple[dict[str, Any], bool]:
    """Return the report, with `degraded` children and `deaths`, and whether the server can still work."""
    reported = [(kind, states[kind.name]) for kind in ALL_CHILDREN if kind.is_reported and kind.name in states]
    missing = {child.name: round(state.missing_seconds, 1) for child, state in reported if state.missing_seconds}
    is_alive = not any(child.is_needed and state.missing_seconds > HOPELESS for child, state in reported)
    report = {"alive": is_alive, "degraded": list(missing), "missing_seconds": missing}
    return report | {"deaths": {child.name: state.deaths for child, state in reported if state.deaths}}, is_alive
