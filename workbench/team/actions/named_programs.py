"""The registered program that a plan document names. The document is read here as JSON alone: what is wrong with it, a planner says."""

import json
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.actions.input_errors import InputError
from workbench.team.store.tables import RegisteredProgram


def program_of_document(session: DatabaseSession, project_id: str, text: str) -> RegisteredProgram | None:
    """The program of the project that a document names; `None` where it names one of the zoo, or is no document. Raises `InputError` for a
    program that nobody registered, or that is not approved: nothing of it is imported then."""
    target = _target_of(text)
    if target is None or ":" not in target:
        return None
    return approved_program(session, project_id, target)


_NOT_YET = {
    "added": "has not been fetched yet",
    "fetched": "is fetched and not approved yet",
    "failed": "could not be fetched",
    "withdrawn": "was withdrawn",
}


def approved_program(session: DatabaseSession, project_id: str, target: str) -> RegisteredProgram:
    """The approved program of a target, `module:function`. Raises `InputError`."""
    named = select(RegisteredProgram).where(RegisteredProgram.project_id == project_id, RegisteredProgram.target == target)
    found = session.scalars(named.order_by(RegisteredProgram.created.desc())).all()
    approved = [each for each in found if each.state == "approved"]
    if approved:
        return approved[0]
    shown = target[:80].encode("utf-8", "backslashreplace").decode()
    if found:
        why = _NOT_YET[found[0].state]
        raise InputError(f"`{shown}` {why}; it runs only after it is approved.", ["ask an owner of the project"])
    raise InputError(f"`{shown}` is no program of this project.", ["have an owner add it to the programs", "use a model of the zoo"])


def _target_of(text: str) -> str | None:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    program = document.get("program") if isinstance(document, dict) else None
    target = program.get("target") if isinstance(program, dict) else None
    return target if isinstance(target, str) and len(target) <= 400 and "\0" not in target and target.isprintable() else None
