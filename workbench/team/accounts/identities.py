"""Identities: a person as somebody else vouches for them; who of a company's directory may sign in, and what its groups are here.

**Invariants**

- An identity is the issuer and its unchanging subject. An e-mail address never leads to an account: whoever gets to set one at some
  provider would get the account of another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from workbench.errors import WorkbenchError
from workbench.team.access import ForbiddenError, ProjectRole
from workbench.team.accounts.invitations import accept_as, open_invitation, was_invited
from workbench.team.accounts.user_accounts import add_user, free_name, set_role
from workbench.team.store.tables import Identity, Member, Project, User

# Who of a company's directory may sign in, and what its groups are here.
#
# What stands in the rules is governed by them: a person's role in a project that they name follows their groups at each sign-in, up and
# down. Other projects are left alone.


@dataclass(frozen=True, slots=True)
class GroupRules:
    """`anyone` whom the provider vouches for may make an account; else those of a domain of e-mail or of a group; else those who have an
    invitation. `roles[group][slug]` is the role of a group in a project; `admins` are the groups of administrators.

    **Invariants**

    - Without `anyone`, `domains` and `groups`, nobody is let in without an invitation: some providers vouch for the whole world.
    """

    anyone: bool = False
    domains: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    admins: frozenset[str] = frozenset()
    roles: Mapping[str, Mapping[str, ProjectRole]] = field(default_factory=dict)

    def admits(self, email: str | None, groups: Iterable[str]) -> bool:
        """Whether somebody may sign in without ever having had an invitation; `email` is one that the provider has verified."""
        domain = email.rpartition("@")[2].lower() if email else ""
        known = self.groups | self.admins | set(self.roles)
        return self.anyone or domain in {each.lower() for each in self.domains} or bool(known & set(groups))


def apply_groups(session: Session, user: User, groups: Iterable[str], rules: GroupRules) -> None:
    """Set what the rules govern."""
    mine = set(groups)
    if rules.admins:
        user.admin = bool(rules.admins & mine)
    best: dict[str, ProjectRole] = {}
    for group, roles in rules.roles.items():
        for slug, role in roles.items():
            if group in mine:
                best[slug] = max(role, best.get(slug, role))
    for slug in {slug for roles in rules.roles.values() for slug in roles}:
        _set(session, user, slug, best.get(slug))


def _set(session: Session, user: User, slug: str, role: ProjectRole | None) -> None:
    project_id = session.scalar(select(Project.id).where(Project.slug == slug, Project.personal_of.is_(None)))
    if project_id is None:
        return
    if role is None:
        session.execute(delete(Member).where(Member.project_id == project_id, Member.user_id == user.id))
    else:
        set_role(session, project_id, user.id, role)


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
        raise SignInError("The provider sent no permanent ID of this person (`sub`).", ["contact the operator of the provider"])
    found = session.get(Identity, (person.issuer, person.subject))
    user = session.get_one(User, found.user_id) if found else _new_user(session, person, rules, invitation)
    if not user.active:
        raise ForbiddenError("This account is disabled here.", ["ask an administrator"])
    if invitation:
        accept_as(session, invitation, user)
    if not (rules.admits(person.email, person.groups) or was_invited(session, user)):
        raise ForbiddenError("Your account is no longer in a group that may sign in here.", ["ask an administrator"])
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
