"""Rules for fetching programs: allowed sources and size limits."""

import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from workbench.errors import WorkbenchError
from workbench.team.sandbox.resource_limits import MIB


class ProgramRegistryError(WorkbenchError):
    """A program cannot be added, fetched, approved or run."""


_ADDRESS = re.compile(r"(?P<protocol>https|file)://(?P<host>[A-Za-z0-9.\-]*)(?P<port>:\d{1,5})?(?P<path>/[A-Za-z0-9._~+/\-]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class TreeLimits:
    files: int = 5_000
    total: int = 64 * MIB
    each: int = 8 * MIB


@dataclass(frozen=True)
class FetchPolicy:
    """An administrator's rules for fetching.

    **Invariants**

    - With `hosts`, only these are contacted; without, only hosts with public addresses, so that users cannot reach the
      internal network through the server. Behind a `proxy`, the proxy resolves addresses.
    - `credentials` maps a host to `user:token`; they are sent to that host only.
    - Local repositories (`file://`) are read only under `folders`.
    """

    hosts: tuple[str, ...] = ()
    credentials: Mapping[str, str] = field(default_factory=dict)
    proxy: str = ""
    folders: tuple[Path, ...] = ()
    tree: TreeLimits = TreeLimits()
    upload: int = 32 * MIB  # maximum bytes of a wheel
    download: int = 512 * MIB  # maximum bytes of git's pack
    seconds: float = 300.0


class GitSource(NamedTuple):
    """A commit of a repository; `parse_source` is the inverse of `str`."""

    address: str
    commit: str

    def __str__(self) -> str:
        return f"{self.address} {self.commit}"

    @property
    def host(self) -> str:
        return (_ADDRESS.fullmatch(self.address) or {"host": ""})["host"] or ""

    @property
    def folder(self) -> Path | None:
        return Path(self.address.removeprefix("file://")) if self.address.startswith("file://") else None


def parse_source(text: str) -> GitSource:
    """Parse the text of `str(source)`.

    >>> parse_source("https://example.com/team/models.git " + "0" * 40).host
    'example.com'
    """
    address, _, commit = text.partition(" ")
    return GitSource(address, commit)


def read_source(address: str, commit: str) -> GitSource:
    """Parse user input. Raises `ProgramRegistryError` for an invalid address or an abbreviated commit."""
    match = _ADDRESS.fullmatch(address.strip()) if len(address) < 500 else None
    if match is None or ".." in match["path"].split("/") or (match["protocol"] == "https") != bool(match["host"]):
        raise ProgramRegistryError(
            f"`{address[:120]}` is not an address of a repository that can be fetched here.",
            ["write `https://host/path/of/repository.git`", "omit names and passwords: an administrator sets the credentials of a host"],
        )
    if not _COMMIT.fullmatch(commit.strip()):
        raise ProgramRegistryError(
            f"`{commit[:80]}` is not a commit; branches and tags can change.",
            ["write all 40 digits of the commit, as `git rev-parse HEAD` prints them"],
        )
    return GitSource(address.strip(), commit.strip())


def verify_source(source: GitSource, policy: FetchPolicy) -> None:
    """Raise `ProgramRegistryError` for a forbidden source. Resolves the host's address."""
    if source.folder is not None:
        if not any(source.folder.resolve().is_relative_to(folder.resolve()) for folder in policy.folders):
            raise ProgramRegistryError(
                f"`{source.address}` is on the server's disk, outside the allowed folders.",
                ["give an `https` address", "ask an administrator to set the folder"],
            )
        return
    if policy.hosts:
        if source.host not in policy.hosts:
            hosts = ", ".join(f"`{host}`" for host in policy.hosts)
            raise ProgramRegistryError(
                f"Programs cannot be fetched from `{source.host}`; allowed hosts: {hosts}.", ["ask an administrator to add the host"]
            )
        return
    if any(not address.is_global for address in _addresses(source.host, bool(policy.proxy))):
        raise ProgramRegistryError(
            f"`{source.host}` is inside the server's network; only public hosts are allowed.", ["ask an administrator to add the host"]
        )


def _addresses(host: str, behind_proxy: bool) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Resolve a host; behind a proxy only numeric names are resolved."""
    flags = socket.AI_NUMERICHOST if behind_proxy else 0
    try:
        results = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError):
        if behind_proxy:
            return []
        raise ProgramRegistryError(f"There is no host `{host}`, or it cannot be resolved from here.", ["check the address"]) from None
    return [ipaddress.ip_address(str(result[4][0]).partition("%")[0]) for result in results]
