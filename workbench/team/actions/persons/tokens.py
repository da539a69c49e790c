"""Tokens: keys to this API that a person makes for a script.

**Invariants**

- A token makes no token that may do more than itself, or that lasts longer.
- Its secret is in one answer, and nowhere else.
"""

from typing import Any

from sqlalchemy import select

from workbench.team.access import SCOPES, ForbiddenError, MissingError
from workbench.team.accounts.tokens import issue_token, revoke_token
from workbench.team.actions.action import PERSON, Action, Call
from workbench.team.actions.schemas import DAYS, ID, NAME, NOTHING, TEXT, TIME, list_of, one_of, or_none, record, text
from workbench.team.store.store import now
from workbench.team.store.tables import Token

_TOKEN = record(
    {"id": ID, "name": TEXT, "scopes": list_of(one_of(*SCOPES)), "created": TIME, "expires": or_none(TIME), "used": or_none(TIME)}
)
_NEW = record({"name": text(NAME, 1, pattern=r"^.*\S.*$"), "scopes": list_of(one_of(*SCOPES), len(SCOPES), 1)}, {"days": DAYS})
_DAY = 86_400.0


def _list(call: Call) -> dict[str, Any]:
    mine = select(Token).where(Token.user_id == call.person.user_id, Token.revoked.is_(None)).order_by(Token.created.desc(), Token.id)
    return {"items": [_record(each) for each in call.session.scalars(mine)]}


def _create(call: Call) -> dict[str, Any]:
    scopes, own = tuple(call.body["scopes"]), call.person.scopes
    if own is not None and not own >= set(scopes):
        missing = ", ".join(f"`{each}`" for each in scopes if each not in own)
        raise ForbiddenError(f"A token cannot give what it has not: {missing}.", ["make the token in the browser"])
    expires = now() + call.body["days"] * _DAY if "days" in call.body else None
    issued = issue_token(call.session, call.person.user_id, call.body["name"], scopes, _not_after(call, expires))
    call.session.flush()
    call.note(scopes=sorted(set(scopes)))
    return {"secret": issued.secret, "token": _record(call.session.get_one(Token, issued.id)), "id": issued.id}


def _not_after(call: Call, expires: float | None) -> float | None:
    """The end of a token that is made with a token: not after its own."""
    maker = call.session.get(Token, call.person.key) if call.person.way == "token" else None
    ends = [each for each in (expires, maker.expires if maker else None) if each is not None]
    return min(ends, default=None)


def _revoke(call: Call) -> dict[str, Any]:
    if not revoke_token(call.session, call.inputs.path["token"], call.person.user_id):
        raise MissingError("token", call.inputs.path["token"])
    return {}


def _record(token: Token) -> dict[str, Any]:
    own = {"id": token.id, "name": token.name, "scopes": token.scopes}
    return {**own, "created": token.created, "expires": token.expires, "used": token.used}


ACTIONS = (
    Action("tokens.list", "GET", "/tokens", "List my tokens", PERSON, "manage", record({"items": list_of(_TOKEN)}), _list),
    Action(
        "tokens.create",
        "POST",
        "/tokens",
        "Make a token; its secret is shown this once",
        PERSON,
        "manage",
        record({"id": ID, "secret": TEXT, "token": _TOKEN}),
        _create,
        body=_NEW,
        status=201,
        subject="id",
    ),
    Action("tokens.revoke", "DELETE", "/tokens/{token}", "End a token of mine", PERSON, "manage", NOTHING, _revoke),
)
