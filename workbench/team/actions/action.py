"""Actions: everything that a user can do on the team server apart from gestures in a room.

**Invariants**

- An action is a decorated function. The decorator states its authorization (`gate`, `scope`); its argument and return
  types define schemas, checks, routes, the OpenAPI document and the tests over all actions.
- `do` runs inside one transaction, which authorizes the user again and includes the audit entry.
- `prepare`, which may call a planner or an engine, runs before that transaction and after a first authorization;
  `afterwards` notifies open pages of the change.
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
    """The authorization that an action requires.

    `who` is `anyone`, a signed-in `person`, a server `admin`, or a `member` with at least `role` in the project that
    the path parameter `of` leads to. With `guests`, users who opened a link to a room have the link's role. `excluded`
    are higher roles that are rejected.
    """

    who: Literal["anyone", "person", "admin", "member"]
    role: ProjectRole | None = None
    of: str = "project"
    guests: bool = False
    excluded: tuple[ProjectRole, ...] = ()

    def admits(self, held: ProjectRole) -> bool:
        return self.role is not None and held >= self.role and held not in self.excluded

    def __str__(self) -> str:
        if self.role is not None:
            phrase = f"{'an' if str(self.role)[0] in 'aeiou' else 'a'} {self.role} of the project"
            return f"{phrase}, but no {' or '.join(map(str, self.excluded))}" if self.excluded else phrase
        return {"anyone": "anybody", "person": "any signed-in person", "admin": "an administrator of the server"}[self.who]


ANYONE, PERSON, ADMIN = Gate("anyone"), Gate("person"), Gate("admin")


def member(role: ProjectRole, of: str = "project", *, guests: bool = False, excluded: tuple[ProjectRole, ...] = ()) -> Gate:
    """Require at least a role in the project that the path parameter `of` leads to, except excluded roles."""
    return Gate("member", role, of, guests, excluded)


@dataclass(frozen=True, slots=True)
class Inputs:
    """The request's path parameters, query texts, and JSON body (`None` without a body)."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None


@dataclass(frozen=True, slots=True)
class Found:
    """The resource of a path, its project, and the user's role there."""

    resource: Any = None
    project: Project | None = None
    role: ProjectRole | None = None


@dataclass(frozen=True)
class Call:
    services: Any  # `team.web.team_services.TeamServices`
    principal: Principal | None
    session: DatabaseSession
    inputs: Inputs
    found: Found = Found()
    prepared: Any = None
    details: dict[str, Any] = field(default_factory=dict)  # added to the audit entry

    @property
    def person(self) -> Principal:
        if self.principal is None:
            raise NotSignedInError
        return self.principal

    @property
    def project(self) -> Project:
        assert self.found.project is not None  # set by every gate for members
        return self.found.project

    @property
    def body(self) -> Mapping[str, Any]:
        body: Mapping[str, Any] = self.inputs.body or {}
        return body

    @property
    def query(self) -> Mapping[str, Any]:
        return self.inputs.query

    def arguments(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Return a function's arguments from path, query and body; missing ones keep their defaults."""
        sent = {**self.query, **self.body}
        available = sent | dict(self.inputs.path)
        values = {name: available[name] for name, kind, _ in arguments_of(function) if name in available and not is_record(kind)}
        records = {name: kind for name, kind, _ in arguments_of(function) if is_record(kind)}
        return values | {name: kind(**_only(sent, kind.__struct_fields__)) for name, kind in records.items()}

    def may(self, role: ProjectRole) -> bool:
        return self.found.role is not None and self.found.role >= role

    def note(self, **details: Any) -> None:
        """Add details to the audit entry; never secrets."""
        self.details.update(details)


@dataclass(frozen=True, eq=False)
class Action:
    """An action. `subject` and `etag` name the parameter or answer key that identifies the object or its content."""

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
        return self.method != "GET"

    @cached_property
    def inputs(self) -> Schema:
        return inputs_schema([function for function in (self.prepare, self.do) if function is not None], without=self.parameters)

    @cached_property
    def body(self) -> Schema | None:
        return self.inputs if self.changes and self.inputs["properties"] else None

    @property
    def query(self) -> Mapping[str, Schema]:
        return {} if self.changes else self.inputs["properties"]

    @property
    def required(self) -> tuple[str, ...]:
        return () if self.changes else tuple(self.inputs["required"])

    @cached_property
    def answer(self) -> Schema:
        return answer_schema(self.do)

    @cached_property
    def largest_body(self) -> int:
        """The maximum body size in bytes, from the schema plus room for whitespace."""
        return SMALL_BODY if self.body is None else max(SMALL_BODY, largest_json(self.body) + SMALL_BODY // 4)

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))

    def carry_out(self, call: Call) -> Any:
        return as_json(self.do(call, **call.arguments(self.do)))


def action(name: str, address: str, gate: Gate, scope: str, summary: str = "", **more: Any) -> Callable[[Function], Function]:
    """Register a function as an action; the summary defaults to the first sentence of its docstring."""

    def decorate(do: Function) -> Function:
        method, _, path = address.partition(" ")
        text = summary or " ".join((getdoc(do) or "").partition("\n\n")[0].split()).removesuffix(".")
        new_action = Action(name, method, path, text, gate, scope, do, **more)
        vars(do)[_ACTIONS] = (new_action, *vars(do).get(_ACTIONS, ()))
        return do

    return decorate


def actions_of(*modules: ModuleType) -> tuple[Action, ...]:
    functions = (value for module in modules for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__)
    return tuple(registered for function in functions for registered in getattr(function, _ACTIONS, ()))


def _only(values: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}


_ACTIONS = "team_actions"


Part = TypeVar("Part")


def planner_of(call: Call) -> Planner:
    return _present(call.services.planner, "reads no plan documents")


def jobs_of(call: Call) -> JobService:
    return _present(call.services.jobs, "runs no jobs")


def programs_of(call: Call) -> Programs:
    return _present(call.services.programs, "takes no programs")


def _present(part: Part | None, lacks: str) -> Part:
    if part is None:
        raise UnavailableError(f"This server {lacks}.", ["ask an administrator"])
    return part
