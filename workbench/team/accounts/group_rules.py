"""Who of a company's directory may sign in, and what its groups are here.

What stands in the rules is governed by them: a person's role in a project that they name follows their groups at each sign-in, up and
down. Other projects are left alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from workbench.team.access import ProjectRole
from workbench.team.accounts.people import set_role
from workbench.team.store.tables import Member, Project, User


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
