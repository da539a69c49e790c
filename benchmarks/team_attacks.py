"""What an attacker tries on a team's server, and how each attempt is refused; the exit status is 1 if one succeeds.

    python benchmarks/team_attacks.py [--quick] [--json] [--only PART ...]

| Part | Attempts |
|---|---|
| `actions` | every action of the API: by nobody, by strangers, by members below its role, with a token that lacks its scope |
| `messages` | every gesture of a room's page, and every request of its bar, by a viewer |
| `programs` | hostile programs in a sandbox, and on a machine without one |
| `server` | a server without a sandbox: a takeover by a student's program, the modes of its files, large bodies, floods of wheels |

`--quick` draws one attempt in eight of the first three parts, and gives a person two programs in place of twenty in the last. The figures
are counts; `programs` takes minutes whole.
"""

import argparse
import collections
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from team_attacked_server import SERVER_PARTS, attacked_server

from tests.support.action_examples import address_of, body_of, path_of, query_of
from tests.support.hostile_surroundings import surroundings_in
from tests.support.room_sessions import first_plan
from tests.support.team_rooms import RoomTeam, VisitedRoom
from tests.support.team_server import new_store, team_server
from tests.support.team_world import ROLES, TeamWorld, add_things, make_token, parts_of_server, people_world
from tests.team.sandbox.hostile_programs import HOSTILE
from tests.widgets.test_codec import messages
from workbench.documents import dump_plan
from workbench.team.access import SCOPES
from workbench.team.actions.action import Action
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.api.api_routes import api_routes
from workbench.team.rooms.planners import Planners
from workbench.team.rooms.room_hub import RoomHub
from workbench.team.sandbox.probe_sandbox import probe
from workbench.team.sandbox.resource_limits import SandboxError
from workbench.team.sandbox.sandbox import Sandbox
from workbench.widgets.gestures.gesture_codec import BOARD_GESTURES

QUICK = 8
REQUESTS = ({"kind": "stop"}, {"kind": "branch"}, {"kind": "undo"}, {"kind": "redo"}, {"kind": "go", "node": 0})


@dataclass(frozen=True, slots=True)
class Attempt:
    """One thing that was tried, and what refused it: empty where it succeeded."""

    part: str
    what: str
    refused: str


def try_actions(draw: Callable[[Sequence[Any]], Sequence[Any]]) -> Iterator[Attempt]:
    """Each action over HTTP, by everybody who may not. Nothing in the store may be different afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = new_store(folder)
        server = stack.enter_context(team_server(folder, api_routes(), store=store, **parts_of_server(store)))
        client = stack.enter_context(server.client())
        world = add_things(people_world(store, server.services))
        without = {scope: make_token(world, "root", tuple(each for each in SCOPES if each != scope)) for scope in SCOPES}
        before = world.dump()
        for action in draw([action for action in ALL_ACTIONS if action.gate.who != "anyone"]):
            keys = {"nobody": "", f"no scope {action.scope}": without[action.scope]} | {who: world.tokens[who] for who in _below(action)}
            for who, token in keys.items():
                answer = _ask(client, action, world, token)
                error = answer.json().get("error", {}) if answer.status_code >= 400 else {}
                yield Attempt("actions", f"{action.name} by {who}", f"{answer.status_code} {error['kind']}" if error else "")
        yield Attempt("actions", "a change in the store by any of these", "none" if world.dump() == before else "")


def _below(action: Action) -> list[str]:
    """Those whose role is not enough, and a stranger."""
    if action.gate.who == "admin":
        return [*ROLES, "sam"]
    if action.gate.role is None:
        return []
    return ["sam", *(name for name, role in ROLES.items() if role < action.gate.role)]


def _ask(client: Any, action: Action, world: TeamWorld, token: str) -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = {"json": body_of(action, world)} if action.body is not None else {}
    path = address_of(action, path_of(action, world))
    return client.request(action.method, path, params=query_of(action, world), headers=headers, **body)


def try_messages(draw: Callable[[Sequence[Any]], Sequence[Any]]) -> Iterator[Attempt]:
    """Each message of a page by a viewer of a real room: its log stays empty, and the other person's board stays as it was."""
    with ExitStack() as stack:
        team = RoomTeam.begin(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        planners = Planners()
        stack.callback(planners.close)
        hub = RoomHub(team.store, planners, "http://localhost:5007")
        stack.callback(hub.close)
        room = VisitedRoom(team, hub, team.new_room(dump_plan(first_plan())))
        ada, vic = room.enter("ada"), room.enter("vic")
        for kind in draw(BOARD_GESTURES):
            message = {key: value for key, value in messages(kind).example().items() if key != "verb"}
            vic.do(kind.verb, **message)
            yield Attempt("messages", kind.verb, _as_it_was(room, ada, vic.refusal))
        for request in REQUESTS:
            vic.ask(**request)
            vic.do("open", tab="memory")
            yield Attempt("messages", f"{request['kind']} in the bar", _as_it_was(room, ada, vic.refusal))


def _as_it_was(room: VisitedRoom, other: Any, refusal: str) -> str:
    """Why nothing happened; empty if something did."""
    if room.team.log_of(room.room_id) or len(other.layouts) > 1:
        return ""
    return refusal.partition(":")[0][:60] or "concerns the viewer's own page alone"


def try_programs(draw: Callable[[Sequence[Any]], Sequence[Any]]) -> Iterator[Attempt]:
    """Each hostile program, in the sandbox of this machine and where there is none."""
    for ability in (probe(), probe("/nonexistent/bwrap")):
        sandbox = Sandbox(ability)
        for program in draw(HOSTILE):
            with tempfile.TemporaryDirectory() as folder, surroundings_in(Path(folder)) as around:
                try:
                    run = around.run(sandbox, program)
                except SandboxError as error:
                    yield Attempt("programs", f"{program.name} ({ability.level})", error.message.partition(".")[0])
                    continue
                refused = "" if around.were_reached(run) else run.ending.sentence[:70]
                yield Attempt("programs", f"{program.name} ({ability.level})", refused)
        sandbox.close()


def try_server(draw: Callable[[Sequence[Any]], Sequence[Any]]) -> Iterator[Attempt]:
    """A server as it runs at home, attacked by anonymous visitors and a student."""
    with attacked_server(len(draw(range(20)))) as server:
        for part, attack in SERVER_PARTS.items():
            yield from (Attempt(part, *tried) for tried in attack(server))


PARTS: dict[str, Callable[[Callable[[Sequence[Any]], Sequence[Any]]], Iterator[Attempt]]] = {
    "actions": try_actions,
    "messages": try_messages,
    "programs": try_programs,
    "server": try_server,
}


def run_attacks(parts: Sequence[str], share: int, seed: int) -> list[Attempt]:
    """All attempts of these parts, one in `share` of the large ones."""
    chosen = random.Random(seed)  # noqa: S311 - a sample
    draw = lambda members: members if share == 1 else chosen.sample(list(members), max(1, len(members) // share))  # noqa: E731
    return [attempt for part in parts for attempt in PARTS[part](draw)]


def print_table(attempts: Sequence[Attempt]) -> None:
    """What refused the attempts of each part, the most frequent first; then whatever succeeded."""
    for part in dict.fromkeys(attempt.part for attempt in attempts):
        tried = [attempt for attempt in attempts if attempt.part == part]
        print(f"{part}: {len(tried)} attempts")
        for refused, count in collections.Counter(attempt.refused for attempt in tried).most_common():
            print(f"  {count:5d}  {refused or 'SUCCEEDED'}")
    for attempt in attempts:
        if not attempt.refused:
            print(f"SUCCEEDED: {attempt.part}: {attempt.what}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    attempts = run_attacks(given.only, QUICK if given.quick else 1, given.seed)
    print_table(attempts)
    succeeded = sum(not attempt.refused for attempt in attempts)
    if given.json:
        print(json.dumps({"attempts": len(attempts), "succeeded": succeeded}))
    return 1 if succeeded else 0


if __name__ == "__main__":
    sys.exit(main())
