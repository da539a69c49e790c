"""Who may do what: roles in a project, the person behind a request, and the errors of what is refused."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from workbench.errors import WorkbenchError


class ProjectRole(IntEnum):
    """What a person may do in a project; each may do what those below it may, but for the work on assignments, which is not a viewer's.

    A student works on assignments in rooms of their own and sees nothing else; a viewer reads everything; an editor also edits plans, in
    rooms and in the gallery, and hands out assignments; a runner also spends devices; an owner also says who is in the project, approves
    its programs, and sets its hardware. None is 0: a role is true.
    """

    STUDENT = 1
    VIEWER = 2
    EDITOR = 3
    RUNNER = 4
    OWNER = 5

    def __str__(self) -> str:
        return self.name.lower()


def parse_role(text: str) -> ProjectRole:
    """The role of a name; raises `WorkbenchError` for another word."""
    found = {str(role): role for role in ProjectRole}.get(text.strip().lower())
    if found is None:
        raise WorkbenchError(f"`{text[:40]}` is not a role.", [f"give one of {', '.join(map(str, ProjectRole))}"])
    return found


@dataclass(frozen=True, slots=True)
class Principal:
    """The person behind a request, and by which key: a browser's `login`, or a `token` that may do less (`scopes`; a login has none and
    may do everything that the person may)."""

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
"""Of tokens: to read, to change plans and rooms, to spend devices, to do what an owner or an administrator does."""


class NotSignedInError(WorkbenchError):
    """Nobody is behind the request."""

    def __init__(self) -> None:
        super().__init__("Not signed in.", ["sign in", "send a token: `Authorization: Bearer ...`"])


class ForbiddenError(WorkbenchError):
    """The person may not do this."""


class MissingError(WorkbenchError):
    """There is no such thing, or it is not the person's to know of: the answer is the same."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"There is no {kind} `{name[:80]}`, or you may not see it.", ["check the address", "ask an owner of its project"])


def require(held: ProjectRole | None, needed: ProjectRole, to_do: str) -> None:
    """Raises `ForbiddenError` for a role that is not enough."""
    if held is None or held < needed:
        has = f"you are {_with_article(held)}" if held else "you are not a member"
        raise ForbiddenError(f"To {to_do} takes {_with_article(needed)} of the project, and {has}.", ["ask an owner of the project"])


def _with_article(role: ProjectRole) -> str:
    return f"{'an' if str(role)[0] in 'aeiou' else 'a'} {role}"


class InputError(WorkbenchError):
    """Something that was sent is not as it has to be."""


class ConflictError(WorkbenchError):
    """It cannot be as things are: the name is taken, the room is closed, the project is archived."""


class UnavailableError(WorkbenchError):
    """A part of the server that this needs is not there, or not now."""
