"""Tokens: keys to this API that a person makes for a script.

**Invariants**

- A token makes no token that may do more than itself, or that lasts longer.
- Its secret is in one answer, and nowhere else.
"""

from typing import Annotated

from msgspec import Meta
from sqlalchemy import select

from workbench.team.access import SCOPES, ForbiddenError, MissingError
from workbench.team.accounts.revocations import issue_token, revoke_token
from workbench.team.actions.action import PERSON, Call, action
from workbench.team.actions.schemas import Days, Id, Named, Record, Time, one_of
from workbench.team.store.store import now
from workbench.team.store.tables import Token

_DAY = 86_400.0


Scopes = Annotated[list[Annotated[str, one_of(*SCOPES)]], Meta(min_length=1, max_length=len(SCOPES))]


class TokenRecord(Record, frozen=True):
    """A token, without its secret."""

    id: Id
    name: str
    scopes: list[Annotated[str, one_of(*SCOPES)]]
    created: Time
    expires: Time | None
    used: Time | None


class NewTokenRecord(Record, frozen=True):
    """A token, with its secret."""

    id: Id
    secret: str
    token: TokenRecord


@action("tokens.list", "GET /tokens", PERSON, "manage")
def _list(call: Call) -> list[TokenRecord]:
    """List my tokens."""
    mine = select(Token).where(Token.user_id == call.person.user_id, Token.revoked.is_(None)).order_by(Token.created.desc(), Token.id)
    return [TokenRecord.of(each) for each in call.session.scalars(mine)]


@action("tokens.create", "POST /tokens", PERSON, "manage", status=201, subject="id")
def _create(call: Call, name: Named, scopes: Scopes, days: Days | None = None) -> NewTokenRecord:
    """Make a token; its secret is shown this once."""
    own = call.person.scopes
    if own is not None and not own >= set(scopes):
        missing = ", ".join(f"`{each}`" for each in scopes if each not in own)
        raise ForbiddenError(f"A token cannot grant permissions that it lacks: {missing}.", ["create the token in the browser"])
    expires = None if days is None else now() + days * _DAY
    issued = issue_token(call.session, call.person.user_id, name, tuple(scopes), _not_after(call, expires))
    call.session.flush()
    call.note(scopes=sorted(set(scopes)))
    return NewTokenRecord(id=issued.id, secret=issued.secret, token=TokenRecord.of(call.session.get_one(Token, issued.id)))


def _not_after(call: Call, expires: float | None) -> float | None:
    """The end of a token that is made with a token: not after its own."""
    maker = call.session.get(Token, call.person.key) if call.person.way == "token" else None
    ends = [each for each in (expires, maker.expires if maker else None) if each is not None]
    return min(ends, default=None)


@action("tokens.revoke", "DELETE /tokens/{token}", PERSON, "manage")
def _revoke(call: Call, token: str) -> None:
    """End a token of mine."""
    if not revoke_token(call.session, token, call.person.user_id):
        raise MissingError("token", token)
