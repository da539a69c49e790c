"""Where programs of the team may be fetched from, who approves them and how they are isolated, from the `[programs]` of a configuration.

[programs]
owners_approve = "shared"                 # the programs of which projects their owners may approve: "shared", "all", "none"
user = "workbench-programs"               # where there is no sandbox: the system user that programs run as
without_sandbox = false                   # true: run programs with the server's rights where there is neither
hosts = ["github.com", "git.example.org"]
folders = ["/srv/git"]
credentials_file = "git_credentials.toml"   # "git.example.org" = "user:token"
"""

import asyncio
import tomllib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from workbench.errors import WorkbenchError
from workbench.team.programs.fetch_policy import FetchPolicy, ProgramRegistryError
from workbench.team.programs.program_registry import ProgramRegistry
from workbench.team.sandbox.resource_limits import SandboxPolicy
from workbench.team.team_config import FILE, TeamConfig

_KNOWN = ("hosts", "folders", "proxy", "credentials_file", "owners_approve", "user", "without_sandbox")
APPROVALS = ("shared", "all", "none")


def owners_approve(config: TeamConfig) -> str:
    """One of `APPROVALS`. Raises `WorkbenchError` for another word."""
    found = str(config.programs.get("owners_approve", APPROVALS[0]))
    if found not in APPROVALS:
        raise WorkbenchError(f"`owners_approve` in {FILE} is `{found[:40]}`.", [f"write one of {', '.join(APPROVALS)}"])
    return found


def make_sandbox_policy(config: TeamConfig) -> SandboxPolicy:
    """What the configuration allows where this machine has no sandbox."""
    given = config.programs
    return SandboxPolicy.of_machine(given.get("user", ""), config.data.resolve(), given.get("without_sandbox", False))


def make_fetch_policy(config: TeamConfig) -> FetchPolicy:
    """Raises `WorkbenchError` for a set-up that cannot be read."""
    given = config.programs
    if unknown := given.keys() - set(_KNOWN):
        raise WorkbenchError(f"`[programs]` in {FILE} has an unknown `{min(unknown)}`.", [f"it has {', '.join(_KNOWN)}"])
    return FetchPolicy(
        hosts=tuple(given.get("hosts", ())),
        folders=tuple(Path(each) for each in given.get("folders", ())),
        proxy=given.get("proxy", ""),
        credentials=_read_credentials(config.data / given["credentials_file"]) if "credentials_file" in given else {},
    )


def _read_credentials(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WorkbenchError(f"The credentials of git in {file} cannot be read: {error}.", ["write a line for each host"]) from None


AT_ONCE = 2
"""Programs that are fetched at a time: that may take minutes, and others wait for threads too."""


class ProgramService:
    """`web.team_services.Programs`. `end_rooms(program_id)` ends what runs a program."""

    def __init__(self, registry: ProgramRegistry, end_rooms: Callable[[str], None]) -> None:
        self._registry, self._end_rooms = registry, end_rooms
        self._fetchers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="program fetcher")

    def close(self) -> None:
        self._fetchers.shutdown(wait=False, cancel_futures=True)
        self._registry.close()

    async def add(
        self, project_id: str, author_id: str, name: str, target: str, kind: Literal["git", "wheel"], locator: str, wheel: bytes | None
    ) -> str:
        added = (project_id, author_id, name, target, kind, locator, wheel)
        return await asyncio.get_running_loop().run_in_executor(self._fetchers, self._add, *added)

    async def approve(self, program_id: str, approver_id: str, digest: str) -> None:
        await asyncio.to_thread(self._registry.approve, program_id, digest, approver_id)

    async def withdraw(self, program_id: str, author_id: str) -> None:
        """Let it run no more; whoever withdrew it is in the audit."""
        del author_id
        await asyncio.to_thread(self._registry.withdraw, program_id)
        self._end_rooms(program_id)

    def _add(self, project_id: str, author_id: str, name: str, target: str, kind: str, locator: str, wheel: bytes | None) -> str:
        if kind == "wheel":
            if wheel is None:
                raise ProgramRegistryError("No wheel was sent.", ["send the file itself"])
            added = self._registry.add_wheel(project_id, name, target, locator, wheel, author_id)
        else:
            address, _, commit = locator.partition(" ")
            added = self._registry.add_git(project_id, name, target, address, commit, author_id)
        self._registry.fetch(added.id)
        return added.id
