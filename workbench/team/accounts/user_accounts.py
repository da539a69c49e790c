"""Create, find and disable users, and create projects with their first owner.

**Invariants**

- A name has lower-case letters, digits, `.`, `_`, `-` and `@` only, so that no two names look alike.
- A server with users has an administrator who can sign in.
"""

import re
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from workbench.errors import WorkbenchError
from workbench.team.access import ConflictError, ProjectRole, parse_role
from workbench.team.accounts.logins import revoke_logins_of
from workbench.team.store.tables import AuditEntry, Member, Project, User

LONGEST_NAME, LONGEST_DISPLAY, LONGEST_EMAIL = 64, 100, 254
_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")


def make_personal_project(session: Session, user: User) -> Project:
    """Return a user's personal project, creating it if needed."""
    existing = session.scalars(select(Project).where(Project.personal_of == user.id)).first()
    return existing or add_project(session, _free_slug(session, user.name), f"{user.display}'s own", owner=user.id, personal=True)


def add_project(session: Session, slug: str, name: str, description: str = "", *, owner: str, personal: bool = False) -> Project:
    if session.scalar(select(Project.id).where(Project.slug == slug)) is not None:
        raise ConflictError(f"The name `{slug}` is taken.", ["take another `slug`"])
    project = Project(slug=slug, name=name.strip(), description=description, personal_of=owner if personal else None)
    session.add(project)
    session.flush()
    session.add(Member(project_id=project.id, user_id=owner, role=str(ProjectRole.OWNER)))
    session.flush()
    return project


def _free_slug(session: Session, name: str) -> str:
    base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:30] or "person"
    base = base if len(base) > 1 else f"{base}-own"
    taken = set(session.scalars(select(Project.slug).where(Project.slug.startswith(base, autoescape=True))))
    return next(slug for number in range(1, len(taken) + 2) if (slug := base if number == 1 else f"{base}-{number}") not in taken)


def verify_name(name: str) -> str:
    """Normalize a name. Raises `WorkbenchError` if it is invalid."""
    clean = name.strip().lower()
    if not _NAME.fullmatch(clean):
        allowed = f"1 to {LONGEST_NAME} letters a to z, digits, `.`, `_`, `-` and `@`, and begins with a letter or a digit"
        raise WorkbenchError(f"`{name[:80]}` is not a valid name: a name has {allowed}.", ["give the first part of the e-mail address"])
    return clean


def add_user(session: Session, name: str, display: str = "", email: str | None = None, *, admin: bool = False) -> User:
    """Create a user with a personal project. Raises `WorkbenchError` for a taken or invalid name."""
    clean = verify_name(name)
    if find_user(session, clean):
        raise WorkbenchError(f"The name `{clean}` is taken.", ["choose another name", "sign in"])
    display_name, shown_email = printable(display)[:LONGEST_DISPLAY] or clean, printable(email or "")[:LONGEST_EMAIL] or None
    user = User(name=clean, display=display_name, email=shown_email, admin=admin)
    session.add(user)
    session.flush()
    make_personal_project(session, user)
    return user


def find_user(session: Session, name: str) -> User | None:
    clean = name.strip().lower()
    return session.scalar(select(User).where(User.name == clean)) if _NAME.fullmatch(clean) else None


def free_name(session: Session, wanted: str) -> str:
    """Return an unused name derived from `wanted`, such as `ada` or `ada-2`."""
    clean = re.sub(r"[^a-z0-9._@-]+", "-", wanted.strip().lower()).strip("-._@")[: LONGEST_NAME - 6] or "person"
    for number in range(1, 10_000):
        candidate = clean if number == 1 else f"{clean}-{number}"
        if not find_user(session, candidate):
            return candidate
    raise WorkbenchError(f"Too many people have the name `{clean}`.", ["ask an administrator for an invitation"])


def count_users(session: Session) -> int:
    return session.scalar(select(func.count()).select_from(User)) or 0


def disable_user(session: Session, user: User) -> list[str]:
    """Disable a user; returns the ended logins' digests. Raises `WorkbenchError` for the last administrator."""
    if user.admin and user.active:
        _verify_other_admin(session, user)
    user.active = False
    return revoke_logins_of(session, user.id)


def enable_user(user: User) -> None:
    user.active = True


def set_admin(session: Session, user: User, *, admin: bool) -> None:
    """Grant or remove administrator status. Raises `WorkbenchError` for the last administrator."""
    if user.admin and not admin:
        _verify_other_admin(session, user)
    user.admin = admin


def set_role(session: Session, project_id: str, user_id: str, role: ProjectRole) -> None:
    membership = session.get(Member, (project_id, user_id))
    if membership:
        membership.role = str(role)
    else:
        session.add(Member(project_id=project_id, user_id=user_id, role=str(role)))


def raise_role(session: Session, project_id: str, user_id: str, role: ProjectRole) -> None:
    """Set a user's role in a project unless they have a higher one."""
    membership = session.get(Member, (project_id, user_id))
    if membership is None or parse_role(membership.role) < role:
        set_role(session, project_id, user_id, role)


def note(session: Session, action: str, user_id: str | None, subject: str = "", address: str = "", **details: Any) -> None:
    text = printable(subject)[:200]
    session.add(AuditEntry(user_id=user_id, action=action, subject=text, details=details, address=address[:100]))


def printable(text: str) -> str:
    """Remove control characters, some of which PostgreSQL rejects.

    >>> printable("Ada" + chr(0) + "  Lovelace" + chr(8238))
    'Ada Lovelace'
    """
    return " ".join("".join(character for character in text if character.isprintable()).split())


def _verify_other_admin(session: Session, user: User) -> None:
    others = select(func.count()).select_from(User).where(User.admin, User.active, User.id != user.id)
    if not session.scalar(others):
        raise WorkbenchError(f"`{user.name}` is the only administrator who can sign in.", ["first make another person an administrator"])
