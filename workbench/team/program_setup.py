"""Where programs of the team may be fetched from, as a set-up says it.

[programs]
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

_KNOWN = ("hosts", "folders", "proxy", "credentials_file")


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
