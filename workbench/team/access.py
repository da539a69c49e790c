"""Project roles, the principal of a request, and the errors for refused requests."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from workbench.errors import WorkbenchError


class ProjectRole(IntEnum):
    """A member's role in a project, in increasing order of permissions.

    A student only works on assignments, in private rooms, and sees nothing else. A viewer reads everything but cannot
    work on assignments. An editor also edits plans in rooms and in the gallery, and hands out assignments. A runner
    also spends devices. An owner also manages members, approves programs, and sets the project's hardware. Values start
    at 1, so that every role is truthy.
    """

    STUDENT = 1
    VIEWER = 2
    EDITOR = 3
    RUNNER = 4
    OWNER = 5

    def __str__(self) -> str:
        return self.name.lower()


def parse_role(text: str) -> ProjectRole:
    """Parse the name of a role. Raises `WorkbenchError` for an unknown name."""
    parsed = {str(role): role for role in ProjectRole}.get(text.strip().lower())
    if parsed is None:
        raise WorkbenchError(f"`{text[:40]}` is not a role.", [f"give one of {', '.join(map(str, ProjectRole))}"])
    return parsed


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated user of a request, with the credential that was used.

    `way` is a browser `login` or an API `token`; `key` identifies it. `scopes` restricts a token; a login has `None`,
    which allows everything that the user may do.
    """

    user_id: str
    name: str
    display: str
    admin: bool = False
    way: Literal["login", "token"] = "login"
    key: str = ""
    scopes: frozenset[str] | None = None

    def has_scope(self, scope: str) -> bool:
        return self.scopes is None or scope in self.scopes


SCOPES = ("read", "edit", "run", "manage")
"""Token scopes: read; change plans and rooms; spend devices; act as an owner or administrator."""


class NotSignedInError(WorkbenchError):
    def __init__(self) -> None:
        super().__init__("Not signed in.", ["sign in", "send a token: `Authorization: Bearer ...`"])


class ForbiddenError(WorkbenchError):
    """The user lacks the permission."""


class MissingError(WorkbenchError):
    """The object does not exist or is hidden from the user; the message does not tell which."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"There is no {kind} `{name[:80]}`, or you may not see it.", ["check the address", "ask an owner of its project"])


def require(held: ProjectRole | None, needed: ProjectRole, to_do: str) -> None:
    """Raise `ForbiddenError` if the role is lower than the required one."""
    if held is None or held < needed:
        has = f"you are {_with_article(held)}" if held else "you are not a member"
        raise ForbiddenError(f"To {to_do} takes {_with_article(needed)} of the project, and {has}.", ["ask an owner of the project"])


def _with_article(role: ProjectRole) -> str:
    return f"{'an' if str(role)[0] in 'aeiou' else 'a'} {role}"


class InputError(WorkbenchError):
    """The request's input is invalid."""


class ConflictError(WorkbenchError):
    """The request conflicts with the current state: a taken name, a closed room, an archived project."""


class UnavailableError(WorkbenchError):
    """A part of the server is not configured or not available at the moment."""
