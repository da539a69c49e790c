"""From where a server fetches programs, and how large they may be."""

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
    """A program that cannot be added, fetched, approved or run."""


_ADDRESS = re.compile(r"(?P<protocol>https|file)://(?P<host>[A-Za-z0-9.\-]*)(?P<port>:\d{1,5})?(?P<path>/[A-Za-z0-9._~+/\-]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class TreeLimits:
    """Of one program: how many files and links, bytes of all, bytes of each."""

    files: int = 5_000
    total: int = 64 * MIB
    each: int = 8 * MIB


@dataclass(frozen=True)
class FetchPolicy:
    """What an administrator has set.

    **Invariants**

    - With `hosts` only these are asked; without, any that has a public address, so that nobody reaches the inside of the network through
      the server. Behind a `proxy` it is the proxy that knows addresses.
    - `credentials` are `user:token` of a host; they are sent to that host alone.
    - Repositories of the server's own disk (`file://`) are read only under `folders`.
    """

    hosts: tuple[str, ...] = ()
    credentials: Mapping[str, str] = field(default_factory=dict)
    proxy: str = ""
    folders: tuple[Path, ...] = ()
    tree: TreeLimits = TreeLimits()
    upload: int = 32 * MIB  # bytes of a wheel
    download: int = 512 * MIB  # bytes of what git keeps of a repository
    seconds: float = 300.0


class GitSource(NamedTuple):
    """A commit of a repository; `str` and `parse_source` are inverse."""

    address: str
    commit: str

    def __str__(self) -> str:
        return f"{self.address} {self.commit}"

    @property
    def host(self) -> str:
        return (_ADDRESS.fullmatch(self.address) or {"host": ""})["host"] or ""

    @property
    def folder(self) -> Path | None:
        """Of a repository on this machine."""
        return Path(self.address.removeprefix("file://")) if self.address.startswith("file://") else None


def parse_source(text: str) -> GitSource:
    """The inverse of `str(source)`.

    >>> parse_source("https://example.com/team/models.git " + "0" * 40).host
    'example.com'
    """
    address, _, commit = text.partition(" ")
    return GitSource(address, commit)


def read_source(address: str, commit: str) -> GitSource:
    """What a person wrote. Raises `ProgramRegistryError` for an address that is none, or a commit that is not written out."""
    found = _ADDRESS.fullmatch(address.strip()) if len(address) < 500 else None
    if found is None or ".." in found["path"].split("/") or (found["protocol"] == "https") != bool(found["host"]):
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
    """Raises `ProgramRegistryError` for a place that this server does not fetch from. Looks the host's address up."""
    if source.folder is not None:
        if not any(source.folder.resolve().is_relative_to(each.resolve()) for each in policy.folders):
            raise ProgramRegistryError(
                f"`{source.address}` is on the server's disk, outside the allowed folders.",
                ["give an `https` address", "ask an administrator to set the folder"],
            )
        return
    if policy.hosts:
        if source.host not in policy.hosts:
            known = ", ".join(f"`{each}`" for each in policy.hosts)
            raise ProgramRegistryError(
                f"Programs cannot be fetched from `{source.host}`; allowed hosts: {known}.", ["ask an administrator to add the host"]
            )
        return
    if any(not each.is_global for each in _addresses(source.host, bool(policy.proxy))):
        raise ProgramRegistryError(
            f"`{source.host}` is inside the server's network; only public hosts are allowed.", ["ask an administrator to add the host"]
        )


def _addresses(host: str, behind_proxy: bool) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Of a host; behind a proxy only those that stand in its name."""
    flags = socket.AI_NUMERICHOST if behind_proxy else 0
    try:
        found = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError):
        if behind_proxy:
            return []
        raise ProgramRegistryError(f"There is no host `{host}`, or it cannot be resolved from here.", ["check the address"]) from None
    return [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
