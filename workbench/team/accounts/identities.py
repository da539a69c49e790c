"""Identities: a person as somebody else vouches for them.

**Invariants**

- An identity is the issuer and its unchanging subject. An e-mail address never leads to an account: whoever gets to set one at some
  provider would get the account of another.
"""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from workbench.errors import WorkbenchError
from workbench.team.access import ForbiddenError
from workbench.team.accounts.group_rules import GroupRules, apply_groups
from workbench.team.accounts.invitations import accept_as, open_invitation, was_invited
from workbench.team.accounts.people import add_user, free_name
from workbench.team.store.tables import Identity, User

LONGEST_SUBJECT = 255  # OpenID Connect Core, section 2


class SignInError(WorkbenchError):
    """A sign-in with a provider that did not come to its end."""


@dataclass(frozen=True, slots=True)
class VouchedPerson:
    """What a provider says of somebody; `email` is `None` unless the provider has verified it."""

    issuer: str
    subject: str
    name: str
    display: str = ""
    email: str | None = None
    groups: tuple[str, ...] = ()


def sign_in_as(session: Session, person: VouchedPerson, rules: GroupRules, invitation: str = "") -> User:
    """The account of somebody; a new one for whom the rules admit, or who has an invitation. Raises `ForbiddenError` for others, and for
    one who is disabled."""
    if not 0 < len(person.subject) <= LONGEST_SUBJECT or not person.subject.isprintable():
        raise SignInError("The provider gave no name for this person that it never changes (`sub`).", ["tell whoever runs the provider"])
    found = session.get(Identity, (person.issuer, person.subject))
    user = session.get_one(User, found.user_id) if found else _new_user(session, person, rules, invitation)
    if not user.active:
        raise ForbiddenError("This account is disabled here.", ["ask an administrator"])
    if invitation:
        accept_as(session, invitation, user)
    if not (rules.admits(person.email, person.groups) or was_invited(session, user)):
        raise ForbiddenError("Your account is in none of the groups any more that may sign in here.", ["ask an administrator"])
    apply_groups(session, user, person.groups, rules)
    return user


def _new_user(session: Session, person: VouchedPerson, rules: GroupRules, invitation: str) -> User:
    if invitation:
        opened = open_invitation(session, invitation)
        if opened.user_id is not None:  # made for somebody who has an account: this is their identity from now on
            return _attach(session, person, session.get_one(User, opened.user_id))
    elif not rules.admits(person.email, person.groups):
        raise ForbiddenError("You have no account here.", ["ask an administrator, or an owner of the project, for an invitation"])
    wanted = person.name or (person.email or "").partition("@")[0]
    return _attach(session, person, add_user(session, free_name(session, wanted), person.display, person.email))


def _attach(session: Session, person: VouchedPerson, user: User) -> User:
    session.add(Identity(issuer=person.issuer, subject=person.subject, user_id=user.id))
    return user
