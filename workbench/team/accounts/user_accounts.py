"""People of the server: added, found, disabled; and how a project begins, with one owner: each person has one alone.

**Invariants**

- A name is lower-case letters, digits, `.`, `_`, `-` and `@`: no two names look alike.
- A server with people has an administrator who can sign in.
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
    """The project of a person alone, which is made if there is none yet."""
    found = session.scalars(select(Project).where(Project.personal_of == user.id)).first()
    return found or add_project(session, _free_slug(session, user.name), f"{user.display}'s own", owner=user.id, personal=True)


def add_project(session: Session, slug: str, name: str, description: str = "", *, owner: str, personal: bool = False) -> Project:
    """A new project with one owner. Raises `ConflictError` for a slug that is taken."""
    if session.scalar(select(Project.id).where(Project.slug == slug)) is not None:
        raise ConflictError(f"The name `{slug}` is taken.", ["take another `slug`"])
    found = Project(slug=slug, name=name.strip(), description=description, personal_of=owner if personal else None)
    session.add(found)
    session.flush()
    session.add(Member(project_id=found.id, user_id=owner, role=str(ProjectRole.OWNER)))
    session.flush()
    return found


def _free_slug(session: Session, name: str) -> str:
    """A slug like a person's name that no project has."""
    base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:30] or "person"
    base = base if len(base) > 1 else f"{base}-own"
    taken = set(session.scalars(select(Project.slug).where(Project.slug.startswith(base, autoescape=True))))
    return next(slug for number in range(1, len(taken) + 2) if (slug := base if number == 1 else f"{base}-{number}") not in taken)


def verify_name(name: str) -> str:
    """The name as it is stored. Raises `WorkbenchError` for one that cannot be."""
    clean = name.strip().lower()
    if not _NAME.fullmatch(clean):
        allowed = f"1 to {LONGEST_NAME} letters a to z, digits, `.`, `_`, `-` and `@`, and begins with a letter or a digit"
        raise WorkbenchError(f"`{name[:80]}` is not a valid name: a name has {allowed}.", ["give the first part of the e-mail address"])
    return clean


def add_user(session: Session, name: str, display: str = "", email: str | None = None, *, admin: bool = False) -> User:
    """A new person, with a project of their own. Raises `WorkbenchError` for a name that is taken or cannot be."""
    clean = verify_name(name)
    if find_user(session, clean):
        raise WorkbenchError(f"The name `{clean}` is taken.", ["choose another name", "sign in"])
    shown, shown_email = printable(display)[:LONGEST_DISPLAY] or clean, printable(email or "")[:LONGEST_EMAIL] or None
    user = User(name=clean, display=shown, email=shown_email, admin=admin)
    session.add(user)
    session.flush()
    make_personal_project(session, user)
    return user


def find_user(session: Session, name: str) -> User | None:
    """The person of a name, in whatever case it is typed."""
    clean = name.strip().lower()
    return session.scalar(select(User).where(User.name == clean)) if _NAME.fullmatch(clean) else None


def free_name(session: Session, wanted: str) -> str:
    """A name like `wanted` that nobody has: `ada`, or `ada-2`."""
    clean = re.sub(r"[^a-z0-9._@-]+", "-", wanted.strip().lower()).strip("-._@")[: LONGEST_NAME - 6] or "person"
    for number in range(1, 10_000):
        candidate = clean if number == 1 else f"{clean}-{number}"
        if not find_user(session, candidate):
            return candidate
    raise WorkbenchError(f"Too many people have the name `{clean}`.", ["ask an administrator for an invitation"])


def count_users(session: Session) -> int:
    return session.scalar(select(func.count()).select_from(User)) or 0


def disable_user(session: Session, user: User) -> list[str]:
    """Sign a person out everywhere, and let them in no more; the digests of the logins that ended, for `Revocations.announce`. Raises
    `WorkbenchError` for the last administrator."""
    if user.admin and user.active:
        _verify_other_admin(session, user)
    user.active = False
    return revoke_logins_of(session, user.id)


def enable_user(user: User) -> None:
    user.active = True


def set_admin(session: Session, user: User, *, admin: bool) -> None:
    """Make a person an administrator, or no more. Raises `WorkbenchError` for the last one."""
    if user.admin and not admin:
        _verify_other_admin(session, user)
    user.admin = admin


def set_role(session: Session, project_id: str, user_id: str, role: ProjectRole) -> None:
    """Give a person a role in a project, whatever role they had."""
    found = session.get(Member, (project_id, user_id))
    if found:
        found.role = str(role)
    else:
        session.add(Member(project_id=project_id, user_id=user_id, role=str(role)))


def raise_role(session: Session, project_id: str, user_id: str, role: ProjectRole) -> None:
    """Give a person a role in a project, unless they have a greater one."""
    found = session.get(Member, (project_id, user_id))
    if found is None or parse_role(found.role) < role:
        set_role(session, project_id, user_id, role)


def note(session: Session, action: str, user_id: str | None, subject: str = "", address: str = "", **details: Any) -> None:
    """Write into the audit what happened to an account."""
    shown = printable(subject)[:200]
    session.add(AuditEntry(user_id=user_id, action=action, subject=shown, details=details, address=address[:100]))


def printable(text: str) -> str:
    """A text without control characters, which no database of ours is given: PostgreSQL refuses some.

    >>> printable("Ada" + chr(0) + "  Lovelace" + chr(8238))
    'Ada Lovelace'
    """
    return " ".join("".join(each for each in text if each.isprintable()).split())


def _verify_other_admin(session: Session, user: User) -> None:
    others = select(func.count()).select_from(User).where(User.admin, User.active, User.id != user.id)
    if not session.scalar(others):
        raise WorkbenchError(f"`{user.name}` is the only administrator who can sign in.", ["first make another person an administrator"])
