"""External identities: who may sign in through a provider, and which roles their groups give.

**Invariants**

- An identity is the issuer and its permanent subject. An e-mail address never leads to an account: anyone who can set
  it at some provider could take over the account.
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

# Sign-in rules and roles by groups of a company's directory.
#
# A role in a project that the rules name follows the user's groups at each sign-in, up and
# down. Roles in other projects are unchanged.


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Rules for people that a provider vouches for.

    `anyone` admits all; otherwise e-mail `domains`, `groups` and invitations do. `roles[group][slug]` is the role of a
    group in a project; `admins` are the groups of administrators.

    **Invariants**

    - Without `anyone`, `domains` and `groups`, signing in takes an invitation: some providers vouch for the whole
      world.
    """

    anyone: bool = False
    domains: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    admins: frozenset[str] = frozenset()
    roles: Mapping[str, Mapping[str, ProjectRole]] = field(default_factory=dict)

    def admits(self, email: str | None, groups: Iterable[str]) -> bool:
        """Return whether somebody may sign in without an invitation; `email` must be verified by the provider."""
        domain = email.rpartition("@")[2].lower() if email else ""
        admitted_groups = self.groups | self.admins | set(self.roles)
        return self.anyone or domain in {admitted.lower() for admitted in self.domains} or bool(admitted_groups & set(groups))


def apply_groups(session: Session, user: User, groups: Iterable[str], rules: GroupRules) -> None:
    memberships = set(groups)
    if rules.admins:
        user.admin = bool(rules.admins & memberships)
    best: dict[str, ProjectRole] = {}
    for group, roles in rules.roles.items():
        for slug, role in roles.items():
            if group in memberships:
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
    """A sign-in with a provider failed."""


@dataclass(frozen=True, slots=True)
class VouchedPerson:
    """A person as the provider describes them; `email` is `None` unless verified."""

    issuer: str
    subject: str
    name: str
    display: str = ""
    email: str | None = None
    groups: tuple[str, ...] = ()


def sign_in_as(session: Session, person: VouchedPerson, rules: GroupRules, invitation: str = "") -> User:
    """Return or create the account of an external identity. Raises `ForbiddenError` if not admitted or disabled."""
    if not 0 < len(person.subject) <= LONGEST_SUBJECT or not person.subject.isprintable():
        raise SignInError("The provider sent no permanent ID of this person (`sub`).", ["contact the operator of the provider"])
    identity = session.get(Identity, (person.issuer, person.subject))
    user = session.get_one(User, identity.user_id) if identity else _new_user(session, person, rules, invitation)
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
        if opened.user_id is not None:  # for an existing account, which gets this identity
            return _attach(session, person, session.get_one(User, opened.user_id))
    elif not rules.admits(person.email, person.groups):
        raise ForbiddenError("You have no account here.", ["ask an administrator, or an owner of the project, for an invitation"])
    preferred_name = person.name or (person.email or "").partition("@")[0]
    return _attach(session, person, add_user(session, free_name(session, preferred_name), person.display, person.email))


def _attach(session: Session, person: VouchedPerson, user: User) -> User:
    session.add(Identity(issuer=person.issuer, subject=person.subject, user_id=user.id))
    return user
