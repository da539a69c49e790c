"""The system user that a sandboxed process runs as, and what of the server's folder this user may reach."""

import os
import pwd
import secrets
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from workbench.team.sandbox.levels import SandboxAbility, SandboxError, SandboxLevel

FIRST_USER, USERS = 1_900_000_000, 65_536
"""The users that a server which is root gives its sandboxes, one each: above those of systemd and of containers."""
GROUP = FIRST_USER + USERS
"""The group of all of them."""


class ProgramUser(NamedTuple):
    """A user and its group. Other programs may run as the same user at the same time if it `is_shared`."""

    uid: int
    gid: int
    is_shared: bool = False


class ProgramUsers:
    """Users that are in use. Thread-safe."""

    def __init__(self, ability: SandboxAbility) -> None:
        self._ability, self._lock = ability, threading.Lock()
        self._in_use: set[int] = set()

    def borrow(self, our_code: bool) -> ProgramUser | None:
        """The user of the next process, or `None` for the server's own. Raises `SandboxError` for a user that does not exist."""
        named = named_user(self._ability.policy.user) if self._ability.level is SandboxLevel.SEPARATE_USER else None
        if named and not our_code:
            return named
        if os.geteuid() != 0 or not self._ability.drops_root:
            return None
        with self._lock:
            while (uid := FIRST_USER + secrets.randbelow(USERS)) in self._in_use:
                pass
            self._in_use.add(uid)
        return ProgramUser(uid, named.gid if named else GROUP)

    def give_back(self, user: ProgramUser | None) -> None:
        with self._lock:
            self._in_use.discard(user.uid if user else -1)


def named_user(name: str) -> ProgramUser:
    """Raises `SandboxError` for a name that does not exist, root, and the server's own user."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise SandboxError(f"`user` under `[programs]` is `{name[:80]}`, which is no user of this machine.", [f"useradd {name}"]) from None
    if found.pw_uid in (0, os.geteuid()):
        raise SandboxError(
            f"`user` under `[programs]` is `{name}`, who has the server's rights.", ["create a user of its own for programs"]
        )
    return ProgramUser(found.pw_uid, found.pw_gid, is_shared=True)


def let_through(paths: Iterable[Path], data: Path | None, gid: int) -> None:
    """Let a group search the folders of `data` that lead to these paths, and list none of them: the folder is private, and a program
    without a sandbox has no mount of its own."""
    for path in paths:
        if data is not None and path.is_relative_to(data):
            for folder in (data, *reversed(path.relative_to(data).parents[:-1])):
                give_to_group(data / folder, gid, stat.S_IXGRP)


def give_to_group(path: Path, gid: int, mode: int) -> None:
    """Let a group do what these bits of it say, unless it may already."""
    found = path.stat()
    if found.st_mode & mode >> 3 == mode >> 3 or (found.st_gid == gid and found.st_mode & mode == mode):
        return
    os.chown(path, -1, gid)
    path.chmod(stat.S_IMODE(found.st_mode) | mode)
