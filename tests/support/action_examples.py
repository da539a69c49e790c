"""For each action what somebody sends who may do it: the tests of every action go through this table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.team_world import DIGEST, ROLES, TeamWorld, document, exercise_document, login_name
from workbench.team.actions.action import Action

PEOPLE = {role: name for name, role in ROLES.items()}


@dataclass(frozen=True)
class ActionExample:
    """`path` gives the parameters for the things of a project; `person` is who does it, if not the least who may."""

    path: Callable[[TeamWorld, Mapping[str, str]], Mapping[str, str]] = lambda _world, things: things
    body: Callable[[TeamWorld, Mapping[str, str]], Any] = lambda _world, _things: None
    query: Mapping[str, str] = field(default_factory=dict)
    person: str = ""


def _sends(body: Any, **others: Any) -> ActionExample:
    return ActionExample(body=lambda _world, _things: body, **others)


def _plan(**more: Any) -> Callable[[TeamWorld, Mapping[str, str]], Any]:
    return lambda _world, things: {"plan": things["entry"], **more}


_OWN_LOGIN = ActionExample(path=lambda world, _things: {"login": login_name(world.cookies["vic"])}, person="vic")

EXAMPLES: dict[str, ActionExample] = {
    "me.get": ActionExample(),
    "me.update": _sends({"display": "Vic the viewer"}),
    "me.quota": ActionExample(),
    "me.logins": ActionExample(),
    "me.sign_out": _OWN_LOGIN,
    "me.leave": ActionExample(),
    "tokens.list": ActionExample(),
    "tokens.create": _sends({"name": "script", "scopes": ["read", "edit"], "days": 3}),
    "tokens.revoke": ActionExample(path=lambda world, _things: {"token": token_id(world, "vic")}, person="vic"),
    "projects.list": ActionExample(),
    "projects.create": _sends({"slug": "speech", "name": "Speech"}),
    "projects.get": ActionExample(),
    "projects.update": _sends({"name": "Seeing", "archived": True}),
    "members.list": ActionExample(),
    "members.set": _sends({"role": "editor"}, path=lambda _world, things: {**things, "person": "vic"}),
    "members.remove": ActionExample(path=lambda _world, things: {**things, "person": "vic"}),
    "members.invite": _sends({"role": "viewer"}),
    "plans.push": _sends({"document": document("hidden:data"), "note": "try this"}),
    "plans.list": ActionExample(query={"q": "two_layer", "limit": "1"}),
    "plans.mine": ActionExample(query={"tier": "planned"}),
    "plans.get": ActionExample(),
    "plans.document": ActionExample(),
    "plans.by_digest": ActionExample(),
    "plans.thumbnail": ActionExample(),
    "plans.update": _sends({"note": "better"}, person="ada"),
    "plans.withdraw": ActionExample(person="ada"),
    "plans.fork": _sends({"project": "vision"}, person="ed"),
    "plans.compare": ActionExample(query={"plans": "{entry},{second}"}),
    "rooms.list": ActionExample(),
    "rooms.open": ActionExample(body=_plan()),
    "rooms.get": ActionExample(),
    "rooms.update": _sends({"name": "Wednesday"}),
    "rooms.log": ActionExample(query={"after": "0"}),
    "comments.list": ActionExample(query={"node": "0"}),
    "comments.add": _sends({"node": 0, "text": "because"}),
    "comments.remove": ActionExample(person="ada"),
    "shares.list": ActionExample(),
    "shares.of_room": _sends({"role": "viewer", "days": 2}),
    "shares.of_entry": _sends({}),
    "shares.open": ActionExample(body=lambda _world, things: {"secret": things["plan_secret"]}),
    "shares.revoke": ActionExample(person="ada"),
    "assignments.list": ActionExample(),
    "assignments.create": _sends({"exercise": exercise_document(), "deadline": "2030-01-31T23:59", "zone": "Europe/Berlin", "size": 2}),
    "assignments.get": ActionExample(),
    "assignments.update": _sends({"released": True, "name": "Week 3"}),
    "assignments.withdraw": ActionExample(),
    "assignments.scores": ActionExample(),
    "assignments.ranking": ActionExample(),
    "assignments.compile": ActionExample(),
    "work.start": _sends({}, person="ed"),
    "work.wall": ActionExample(),
    "work.thumbnail": ActionExample(),
    "work.grade": _sends({"remark": "Look at the links.", "points": 2.5}),
    "assignments.replay": ActionExample(person="vic"),
    "assignments.search": ActionExample(),
    "work.push": ActionExample(body=lambda _world, things: {"work": things["work"]}),
    "answers.hand_in": _sends({"question": "devices", "answer": "4"}),
    "answers.list": ActionExample(query={"everybody": "true"}),
    "programs.list": ActionExample(),
    "programs.waiting": ActionExample(),
    "programs.add": _sends({"name": "theirs", "target": "theirs:build", "kind": "git", "locator": "https://git.example/x.git 1a2b3c"}),
    "programs.get": ActionExample(),
    "programs.approve": _sends({"digest": DIGEST}),
    "programs.withdraw": ActionExample(),
    "jobs.submit": ActionExample(body=_plan(steps=3)),
    "jobs.list": ActionExample(query={"state": "queued"}),
    "jobs.get": ActionExample(),
    "jobs.events": ActionExample(query={"after": "0"}),
    "jobs.cancel": ActionExample(person="ada"),
    "hardware.list": ActionExample(),
    "hardware.set": _sends({"hardware": "8 H100", "note": "the new ones"}),
    "hardware.remove": ActionExample(),
    "people.list": ActionExample(query={"q": "ad"}),
    "people.invite": _sends({"note": "for Eve"}),
    "people.update": _sends({"active": False}, path=lambda _world, _things: {"person": "vic"}),
    "settings.list": ActionExample(),
    "settings.set": _sends({"value": {"days": 10}}, path=lambda _world, _things: {"setting": "links"}),
    "audit.list": ActionExample(query={"action": "plans.push"}),
    "audit.of_project": ActionExample(),
}


def token_id(world: TeamWorld, name: str) -> str:
    """The id of a person's first token."""
    found: str = world.do("tokens.list", name)["items"][-1]["id"]
    return found


def allowed_person(action: Action) -> str:
    """The least person who may: one with exactly the role that the action needs."""
    if EXAMPLES[action.name].person:
        return EXAMPLES[action.name].person
    return {"admin": "root", "person": "vic", "anyone": "sam"}.get(action.gate.who) or PEOPLE[action.gate.role]


def path_of(action: Action, world: TeamWorld, slug: str = "vision") -> dict[str, str]:
    """The parameters of an action's path for the things of a project."""
    found = EXAMPLES[action.name].path(world, world.things[slug])
    return {name: found[name] for name in action.parameters}


def body_of(action: Action, world: TeamWorld, slug: str = "vision") -> Any:
    return EXAMPLES[action.name].body(world, world.things[slug])


def query_of(action: Action, world: TeamWorld, slug: str = "vision") -> dict[str, str]:
    return {key: value.format(**world.things[slug]) for key, value in EXAMPLES[action.name].query.items()}


def address_of(action: Action, path: Mapping[str, str]) -> str:
    """The address of an action under the server's."""
    return "/api/v1" + action.path.format(**path)
