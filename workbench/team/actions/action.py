"""An action: one thing that a person can do on a team's server apart from gestures in a room.

**Invariants**

- It is a function whose decorator says who may do it (`gate`, `scope`). What it takes and answers are the types of the function: schemas,
  checks, routes, authorisation, the OpenAPI document and the tests over all of them follow from that.
- `do` runs inside one transaction, in which the person has just been authorised, and which also holds the entry of the audit.
- `prepare`, which may ask a planner or an engine, runs before that transaction and after a first authorisation; `afterwards` says what
  has changed to those who have it open.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import getdoc
from types import ModuleType
from typing import Any, Literal, TypeVar

from sqlalchemy.orm import Session as DatabaseSession

from workbench.app.page.request_policy import SMALL_BODY
from workbench.team.access import NotSignedInError, Principal, ProjectRole, UnavailableError
from workbench.team.actions.schemas import Schema, answer_schema, arguments_of, as_json, inputs_schema, is_record, largest_json
from workbench.team.store.tables import Project
from workbench.team.web.team_services import JobService, Planner, Programs

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Gate:
    """Who may: `anyone`, a `person` who is signed in, an `admin` of the server, or a `member` of the project with a `role`; the path
    parameter `of` leads to the project. `guests` who opened a link to a room count as members with the link's role. `excluded` are roles
    above `role` that may not."""

    who: Literal["anyone", "person", "admin", "member"]
    role: ProjectRole | None = None
    of: str = "project"
    guests: bool = False
    excluded: tuple[ProjectRole, ...] = ()

    def admits(self, held: ProjectRole) -> bool:
        return self.role is not None and held >= self.role and held not in self.excluded

    def __str__(self) -> str:
        """As a part of a sentence: `an editor of the project`."""
        if self.role is not None:
            who = f"{'an' if str(self.role)[0] in 'aeiou' else 'a'} {self.role} of the project"
            return f"{who}, but no {' or '.join(map(str, self.excluded))}" if self.excluded else who
        return {"anyone": "anybody", "person": "any signed-in person", "admin": "an administrator of the server"}[self.who]


ANYONE, PERSON, ADMIN = Gate("anyone"), Gate("person"), Gate("admin")


def member(role: ProjectRole, of: str = "project", *, guests: bool = False, excluded: tuple[ProjectRole, ...] = ()) -> Gate:
    """Those who have at least this role in the project that the path parameter `of` leads to, and none that is excluded."""
    return Gate("member", role, of, guests, excluded)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a person sent: the parameters of the path, the query as texts, and the body as JSON values (`None`: there was none)."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a path leads to: the resource, its project, and the role that the person has there."""

    resource: Any = None
    project: Project | None = None
    role: ProjectRole | None = None


@dataclass(frozen=True)
class Call:
    """One action as it is carried out, for one person."""

    services: Any  # `team.web.team_services.TeamServices`
    principal: Principal | None
    session: DatabaseSession
    inputs: Inputs
    found: Found = Found()
    prepared: Any = None
    details: dict[str, Any] = field(default_factory=dict)  # what `do` wants to have in the audit

    @property
    def person(self) -> Principal:
        if self.principal is None:
            raise NotSignedInError
        return self.principal

    @property
    def project(self) -> Project:
        assert self.found.project is not None  # of a gate for members, which found it
        return self.found.project

    @property
    def body(self) -> Mapping[str, Any]:
        body: Mapping[str, Any] = self.inputs.body or {}
        return body

    @property
    def query(self) -> Mapping[str, Any]:
        return self.inputs.query

    def arguments(self, function: Callable[..., Any]) -> dict[str, Any]:
        """What a function takes besides the call, from the path and from what was sent; what was not sent has its default."""
        sent = {**self.query, **self.body}
        given = sent | dict(self.inputs.path)
        single = {name: given[name] for name, kind, _ in arguments_of(function) if name in given and not is_record(kind)}
        records = {name: kind for name, kind, _ in arguments_of(function) if is_record(kind)}
        return single | {name: kind(**_only(sent, kind.__struct_fields__)) for name, kind in records.items()}

    def may(self, role: ProjectRole) -> bool:
        """Whether the person's role in the project is at least this one."""
        return self.found.role is not None and self.found.role >= role

    def note(self, **details: Any) -> None:
        """Details for the audit; no secrets."""
        self.details.update(details)


@dataclass(frozen=True, eq=False)
class Action:
    """See the module. `subject` says which path parameter, or which key of the answer, names what was changed; `etag` which key of the
    answer names its contents."""

    name: str
    method: str
    path: str
    summary: str
    gate: Gate
    scope: str
    do: Callable[..., Any]
    prepare: Callable[..., Awaitable[Any]] | None = None
    afterwards: Callable[[Call, Any], Awaitable[None]] | None = None
    status: int = 200
    subject: str = ""
    etag: str = ""

    @property
    def changes(self) -> bool:
        """Whether something may be different afterwards."""
        return self.method != "GET"

    @cached_property
    def inputs(self) -> Schema:
        """The object of what it takes besides the path."""
        return inputs_schema([each for each in (self.prepare, self.do) if each is not None], without=self.parameters)

    @cached_property
    def body(self) -> Schema | None:
        """The body that it takes, if any."""
        return self.inputs if self.changes and self.inputs["properties"] else None

    @property
    def query(self) -> Mapping[str, Schema]:
        """The values that it takes in the address."""
        return {} if self.changes else self.inputs["properties"]

    @property
    def required(self) -> tuple[str, ...]:
        """Those of the query that are not left out."""
        return () if self.changes else tuple(self.inputs["required"])

    @cached_property
    def answer(self) -> Schema:
        return answer_schema(self.do)

    @cached_property
    def largest_body(self) -> int:
        """The bytes of the largest body that it takes: what its schema allows, and room for spaces."""
        return SMALL_BODY if self.body is None else max(SMALL_BODY, largest_json(self.body) + SMALL_BODY // 4)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Those of the path, in their order."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))

    def carry_out(self, call: Call) -> Any:
        """Its answer, JSON values."""
        return as_json(self.do(call, **call.arguments(self.do)))


def action(name: str, address: str, gate: Gate, scope: str, summary: str = "", **more: Any) -> Callable[[Function], Function]:
    """Makes an action of a function, `@action("me.get", "GET /me", PERSON, "read")`: its summary is the first sentence of the function's
    docstring, unless another one is given. A function may be several actions."""

    def decorate(do: Function) -> Function:
        method, _, path = address.partition(" ")
        says = summary or " ".join((getdoc(do) or "").partition("\n\n")[0].split()).removesuffix(".")
        found = Action(name, method, path, says, gate, scope, do, **more)
        vars(do)[_ACTIONS] = (found, *vars(do).get(_ACTIONS, ()))
        return do

    return decorate


def actions_of(*modules: ModuleType) -> tuple[Action, ...]:
    """The actions of modules, in the order in which their functions stand there."""
    functions = (each for module in modules for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__)
    return tuple(found for function in functions for found in getattr(function, _ACTIONS, ()))


def _only(values: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}


_ACTIONS = "team_actions"


Part = TypeVar("Part")


def planner_of(call: Call) -> Planner:
    """Whoever can read plan documents. Raises `UnavailableError`."""
    return _present(call.services.planner, "reads no plan documents")


def jobs_of(call: Call) -> JobService:
    """Whoever runs jobs. Raises `UnavailableError`."""
    return _present(call.services.jobs, "runs no jobs")


def programs_of(call: Call) -> Programs:
    """Whoever keeps the programs of projects. Raises `UnavailableError`."""
    return _present(call.services.programs, "takes no programs")


def _present(part: Part | None, lacks: str) -> Part:
    if part is None:
        raise UnavailableError(f"This server {lacks}.", ["ask an administrator"])
    return part
