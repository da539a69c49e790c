"""Authorize and run actions, in an order that reveals nothing: sign-in, scope, role, inputs."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import ConflictError, ForbiddenError, MissingError, NotSignedInError, Principal
from workbench.team.actions.action import Action, Call, Found, Inputs
from workbench.team.actions.check_inputs import check_inputs
from workbench.team.actions.held_roles import find, verify_active
from workbench.team.actions.quotas import verify_quotas
from workbench.team.store.tables import AuditEntry

_PARAMETER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@~-]{0,79}")


@dataclass(frozen=True, slots=True)
class Context:
    """The services (`team.web.team_services.TeamServices`), user and client address of an action."""

    services: Any
    principal: Principal | None
    address: str = ""

    @classmethod
    def of(cls, handler: Any) -> Self:
        return cls(handler.server, handler.principal, handler.request.remote_ip or "")


async def admit(action: Action, context: Context, path: Mapping[str, str]) -> None:
    """Authorize a request before its body is read. `perform` does so if the project is named in the body."""
    _verify_scope(action, context.principal)
    if action.gate.who != "anyone" and (action.gate.who != "member" or action.gate.of in path):
        await asyncio.to_thread(_admit, action, context, path)


def _admit(action: Action, context: Context, path: Mapping[str, str]) -> None:
    with context.services.store.read() as session:
        _authorise(session, action, context.principal, Inputs(path))
        _verify_quotas(session, action, context.principal)


async def perform(action: Action, context: Context, inputs: Inputs) -> Any:
    """Run an action and return its answer as JSON values. Raises `NotSignedInError`, `ForbiddenError`, `MissingError`,
    `InputError`, `ConflictError`, and other `WorkbenchError`s of the planner or engine; nothing has changed then.
    """
    _verify_scope(action, context.principal)
    try:
        return await _perform(action, context, inputs)
    except IntegrityError:  # concurrent requests violated a unique constraint, such as a project's program names
        raise ConflictError("A concurrent request did the same, or the name is taken.", ["reload and try again"]) from None


async def _perform(action: Action, context: Context, inputs: Inputs) -> Any:
    if not action.changes and action.prepare is None:
        return await asyncio.to_thread(_carry_out, action, context, inputs, None)
    first = await asyncio.to_thread(_authorise_first, action, context, inputs)
    prepared = await action.prepare(first, **first.arguments(action.prepare)) if action.prepare is not None else None
    answer = await asyncio.to_thread(_carry_out_again, action, context, inputs, prepared)
    if action.afterwards is not None:
        await action.afterwards(first, answer)
    return answer


def _authorise_first(action: Action, context: Context, inputs: Inputs) -> Call:
    """Return the authorized call with checked inputs, within the user's quotas; its session is closed."""
    with context.services.store.read() as session:
        call = _authorised(session, action, context, inputs, None)
        _verify_quotas(session, action, context.principal)
        return call


def _carry_out_again(action: Action, context: Context, inputs: Inputs, prepared: Any) -> Any:
    """Run the action, and retry once if a concurrent request stored the same row, such as the same plan."""
    try:
        return _carry_out(action, context, inputs, prepared)
    except IntegrityError:
        return _carry_out(action, context, inputs, prepared)


def _carry_out(action: Action, context: Context, inputs: Inputs, prepared: Any) -> Any:
    """Run the action in one transaction, authorizing the user again because `prepare` may take long."""
    store = context.services.store
    with store.write() if action.changes else store.read() as session:
        call = _authorised(session, action, context, inputs, prepared)
        answer = action.carry_out(call)
        if action.changes:
            session.add(_audit_entry(action, context, call, answer))
    return answer


def _authorised(session: DatabaseSession, action: Action, context: Context, inputs: Inputs, prepared: Any) -> Call:
    target = _authorise(session, action, context.principal, inputs)
    return Call(context.services, context.principal, session, check_inputs(action, inputs), target, prepared)


def _verify_scope(action: Action, principal: Principal | None) -> None:
    if action.gate.who == "anyone":
        return
    if principal is None:
        raise NotSignedInError
    if not principal.has_scope(action.scope):
        raise ForbiddenError(f"This token may not `{action.scope}`.", [f"create a token with the scope `{action.scope}`"])


def _authorise(session: DatabaseSession, action: Action, principal: Principal | None, inputs: Inputs) -> Found:
    for name, value in inputs.path.items():
        if not _PARAMETER.fullmatch(value):
            raise MissingError(name, value.encode("ascii", "backslashreplace").decode())
    if principal is not None:
        user = verify_active(session, principal)
        if action.gate.who == "admin" and not (user.admin and principal.admin):
            raise ForbiddenError("This is for administrators of the server.", ["ask one of them"])
        if action.gate.who == "member":
            return find(session, action, user, inputs.path[action.gate.of])
    elif action.gate.who != "anyone":
        raise NotSignedInError
    return Found()


def _verify_quotas(session: DatabaseSession, action: Action, principal: Principal | None) -> None:
    if principal is not None:
        verify_quotas(session, action.name, principal.user_id)


def _audit_entry(action: Action, context: Context, call: Call, answer: Any) -> AuditEntry:
    user_id = context.principal.user_id if context.principal else None
    project = call.details.pop("project", call.found.project)
    return AuditEntry(
        user_id=user_id,
        project_id=project.id if project else None,
        action=action.name,
        subject=_subject(action, call, answer),
        details=_way(context.principal) | call.details,
        address=context.address[:100],
    )


def _subject(action: Action, call: Call, answer: Any) -> str:
    if action.subject and isinstance(answer, dict):
        return str(answer.get(action.subject, ""))
    return call.inputs.path[action.parameters[-1]] if action.parameters else ""


def _way(principal: Principal | None) -> dict[str, Any]:
    """Return the token ID for the audit entry; logins are not recorded because the store has only their digest."""
    return {"token": principal.key} if principal is not None and principal.way == "token" else {}
