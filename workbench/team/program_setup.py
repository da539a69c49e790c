"""Where programs of the team may be fetched from, who approves them and how they are isolated, from the `[programs]` of a configuration.

[programs]
owners_approve = "shared"                 # the programs of which projects their owners may approve: "shared", "all", "none"
user = "workbench-programs"               # where there is no sandbox: the system user that programs run as
without_sandbox = false                   # true: run programs with the server's rights where there is neither
hosts = ["github.com", "git.example.org"]
folders = ["/srv/git"]
credentials_file = "git_credentials.toml"   # "git.example.org" = "user:token"
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError
from workbench.team.config import FILE, TeamConfig
from workbench.team.programs.fetch_policy import FetchPolicy
from workbench.team.sandbox.levels import SandboxPolicy

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
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise WorkbenchError(f"The credentials of git in {file} cannot be read: {error}.", ["write a line for each host"]) from None
