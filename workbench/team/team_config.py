"""The server's configuration, read from `team.toml` in its data folder; command-line options take precedence.

address = "https://plans.example.org"    # the public address, with a path prefix if there is one
listen = "127.0.0.1:5007"                # or "unix:/run/workbench.sock"
database = "postgresql://workbench@db/workbench"
database_password_file = "/run/secrets/database_password"    # a relative path is relative to the data folder

[sign_in]
local = true

[[sign_in.oidc]]
name = "example"
issuer = "https://login.example.org"
client_id = "workbench"
client_secret_file = "oidc_secret"
"""

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from workbench.errors import WorkbenchError, unknown_name
from workbench.team.actions.check_inputs import schema_flaw

FILE = "team.toml"
_SERVED_AT = "served-at"
PORT = 5007
LISTEN = f"127.0.0.1:{PORT}"
_HERE = ("127.0.0.1", "0.0.0.0", "::1", "::")  # noqa: S104 - reachable as localhost from this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamConfig:
    """The server configuration.

    `listen` is `host:port` or `unix:path`. `address` is the public address, by default the same. `origins` are further
    addresses under which a proxy serves the server. `idle_seconds` is a planner's idle limit. `cluster` is the address
    of the Ray cluster that plans rooms.
    """

    data: Path
    listen: str = LISTEN
    address: str = ""
    database: str = ""
    database_password_file: str = ""
    origins: tuple[str, ...] = ()
    proxied: bool = False
    open_metrics: bool = False
    idle_seconds: float = 600.0
    cluster: str = ""
    sign_in: Mapping[str, Any] = field(default_factory=lambda: {"local": True})
    jobs: Mapping[str, Any] = field(default_factory=dict)
    programs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def store_address(self) -> str:
        """The database URL with its password, by default a file in the data folder. Raises `WorkbenchError`."""
        if not self.database_password_file:
            return self.database or f"sqlite:///{self.data / 'team.db'}"
        parts = urlsplit(self.database)
        user, _, place = parts.netloc.rpartition("@")
        password = quote(read_secret(self.data / self.database_password_file, "database's password"), safe="")
        return parts._replace(netloc=f"{user.partition(':')[0]}:{password}@{place}").geturl()

    @property
    def public_address(self) -> str:
        """The address that users type, without a trailing slash; by default the one on this machine."""
        if self.address:
            return self.address.rstrip("/")
        if self.unix_socket:
            return "http://localhost"
        host, port = self.port
        return f"http://{'localhost' if host in _HERE else f'[{host}]' if ':' in host else host}:{port}"

    @property
    def last_address(self) -> str:
        """The public address of the last server, which the command line may have changed; else `public_address`."""
        address = ""
        with suppress(OSError, UnicodeDecodeError):
            address = "" if self.address else (self.data / _SERVED_AT).read_text(encoding="utf-8").strip()
        return address or self.public_address

    def remember_address(self) -> None:
        """Save the address for `last_address`. A read-only data folder is ignored."""
        with suppress(OSError):
            (self.data / _SERVED_AT).write_text(f"{self.public_address}\n", encoding="utf-8")

    @property
    def prefix(self) -> str:
        return urlsplit(self.public_address).path.rstrip("/")

    @property
    def unix_socket(self) -> str | None:
        return self.listen.removeprefix("unix:") if self.listen.startswith("unix:") else None

    @property
    def behind_proxy(self) -> bool:
        """Whether only a local proxy can connect: by socket, by loopback with a public host name, or `proxied`."""
        if self.unix_socket or self.proxied:
            return True
        return _is_loopback(self.port[0]) and not _is_loopback(urlsplit(self.public_address).hostname or "")

    @property
    def port(self) -> tuple[str, int]:
        """The host and port to listen on. Raises `WorkbenchError` if `listen` is neither that nor a socket."""
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65_535:
            raise WorkbenchError(
                f"`{self.listen}` is not an address to listen on.", [f"give `{LISTEN}`", "give `unix:/run/workbench.sock`"]
            )
        return host.strip("[]"), int(port)

    @classmethod
    def read(cls, data: Path, **given: Any) -> "TeamConfig":
        """Read a data folder's configuration; `given` values take precedence. Raises `WorkbenchError`."""
        file = data / FILE
        values = _read_toml(file) if file.is_file() else {}
        names = {setting.name for setting in fields(cls)} - {"data"}
        for name in values:
            if name not in names:
                message, ways_out = unknown_name("setting", name, sorted(names))
                raise WorkbenchError(f"{file}: {message}", ways_out)
        values |= {name: value for name, value in given.items() if value is not None}
        verify_settings(file, values)
        if "origins" in values:
            values["origins"] = tuple(values["origins"])
        config = cls(data=data, **values)
        if not config.unix_socket:
            _ = config.port  # fails now and not when the server starts to listen
        return config


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise WorkbenchError(f"{file} cannot be read: {error}.", ["fix it", "write a new one with `workbench team init`"]) from None


def read_secret(file: Path, name: str) -> str:
    """Read a file that contains a single secret, such as the database password. Raises `WorkbenchError`."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkbenchError(f"The {name} in {file} cannot be read: {error}.", ["write it into that file"]) from None


def _is_loopback(host: str) -> bool:
    return host.strip("[]").lower() in ("localhost", "127.0.0.1", "::1")


# Types and forms of values in `team.toml`. The names within a section are checked by the code that reads it.


_TEXT, _FLAG, _TEXTS = {"type": "string"}, {"type": "boolean"}, {"type": "array", "items": {"type": "string"}}


def _section(each: Mapping[str, Any] | None = None, **known: Any) -> dict[str, Any]:
    return {"type": "object", "properties": known, **({"additionalProperties": each} if each else {})}


_RULES = _section(anyone=_FLAG, domains=_TEXTS, groups=_TEXTS, admins=_TEXTS, roles=_section(_section(_TEXT)))
_PROVIDER = _section(
    _TEXT, name={"type": "string", "pattern": r"^[a-z0-9-]{1,40}$"}, scopes=_TEXTS, rules=_RULES
)  # the name is part of URLs
SCHEMA = _section(
    listen=_TEXT,
    address=_TEXT,
    database=_TEXT,
    database_password_file=_TEXT,
    origins=_TEXTS,
    proxied=_FLAG,
    open_metrics=_FLAG,
    idle_seconds={"type": "number", "minimum": 1},
    cluster=_TEXT,
    sign_in=_section(local=_FLAG, hub=_FLAG, hub_rules=_RULES, oidc={"type": "array", "items": _PROVIDER}),
    jobs=_section(
        engines=_TEXTS,
        limits=_section(_section({"type": "number", "exclusiveMinimum": 0})),
        here=_section(),
        slurm=_section(_TEXT),
        ray=_section(_TEXT),
        kubernetes=_section(mount=_TEXT, kubectl=_TEXT, options=_section(_TEXT)),
    ),
    programs=_section(
        hosts=_TEXTS, folders=_TEXTS, proxy=_TEXT, credentials_file=_TEXT, owners_approve=_TEXT, user=_TEXT, without_sandbox=_FLAG
    ),
)


def verify_settings(file: Path, values: Mapping[str, Any]) -> None:
    """Raise `WorkbenchError` for a value of a wrong type or form."""
    if flaw := schema_flaw(SCHEMA, values):
        raise WorkbenchError(
            f"{file}: at `{flaw[0].removeprefix('$.')}`, {flaw[1]}.", ["fix it", "see the full example in docs/team_server.md"]
        )
    for name in ("address", *(["origins"] if values.get("origins") else [])):
        for address in [values.get(name) or "http://localhost"] if name == "address" else values[name]:
            _verify_address(name, address, with_path=name == "address")


def _verify_address(name: str, text: str, *, with_path: bool) -> None:
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and parts.username is None
    except ValueError:
        is_whole = False
    rest = text.partition("://")[2].partition("/")[2]
    if not is_whole or re.search(r"[\s?#\\*]", text) or (rest and not (with_path and re.fullmatch(r"[\w.~/-]+", rest, re.ASCII))):
        example = "https://plans.example.org/workbench" if with_path else "https://plans.example.org"
        raise WorkbenchError(f"`{name}` is `{text[:120]}`; write it as shown in a browser, such as `{example}`.", [f"set `{name}`"])
