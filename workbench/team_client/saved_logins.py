"""Where the address of a team's server and the token come from: what is given, else `WORKBENCH_SERVER` and `WORKBENCH_TOKEN`, else the file
that `workbench login` wrote.

**Invariants**

- The file can be read by its owner alone (0600), and is written whole or not at all.
- A token of the file is sent to the server that it was saved for, and to no other.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workbench.errors import WorkbenchError

SERVER_VARIABLE, TOKEN_VARIABLE = "WORKBENCH_SERVER", "WORKBENCH_TOKEN"


class TeamServerError(WorkbenchError):
    """A team's server that is not named, does not answer, or refuses; `status` is that of HTTP, 0 where there was no answer."""

    def __init__(self, message: str, ways_out: Any = (), status: int = 0) -> None:
        super().__init__(message, ways_out)
        self.status = status


@dataclass(frozen=True, slots=True)
class ServerLogin:
    """The address of a server, without a slash at its end, and a token for it."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"ServerLogin({self.url!r})"  # a token is not to be in a log


def find_login(url: str | None = None, token: str | None = None) -> ServerLogin:
    """The login that is meant. Raises `TeamServerError` where no server is named, or there is no token for it."""
    saved = _read()
    server = url or os.environ.get(SERVER_VARIABLE) or saved.get("default")
    if not server:
        raise TeamServerError(
            "No team's server is named.", ["workbench login https://plans.example.org", f"set {SERVER_VARIABLE}", "--server URL"]
        )
    server = clean_address(server)
    key = token or os.environ.get(TOKEN_VARIABLE) or saved.get("tokens", {}).get(server)
    if not key:
        raise TeamServerError(f"There is no token for {server}.", [f"workbench login {server}", f"set {TOKEN_VARIABLE}", "--token TOKEN"])
    if not key.isascii() or not key.isprintable():
        raise TeamServerError("The token has characters that no token has.", ["copy it once more"])
    return ServerLogin(server, key)


def save_login(login: ServerLogin) -> Path:
    """Keep a login, which is the default from now on; the file."""
    saved, path = _read(), login_file()
    tokens = {**saved.get("tokens", {}), login.url: login.token}
    _write(path, {"default": login.url, "tokens": tokens})
    return path


def forget_login(url: str) -> bool:
    """Keep the login of a server no more; whether there was one."""
    saved = _read()
    tokens = {server: token for server, token in saved.get("tokens", {}).items() if server != url}
    if len(tokens) == len(saved.get("tokens", {})):
        return False
    _write(login_file(), {"default": saved.get("default") if saved.get("default") != url else next(iter(tokens), None), "tokens": tokens})
    return True


def clean_address(url: str) -> str:
    """An address without what follows its path. Raises `TeamServerError` for one that is none."""
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise TeamServerError(f"`{url[:200]}` is not an address of a server.", ["give it as `https://plans.example.org`"])
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_readable_on_the_way(url: str) -> bool:
    """Whether what is sent to an address goes over a network without encryption.

    >>> is_readable_on_the_way("http://plans.example.org"), is_readable_on_the_way("http://127.0.0.1:5007")
    (True, False)
    """
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")


def login_file() -> Path:
    """The file of logins, in the user's own folder of settings."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sharding-workbench" / "logins.json"


def _read() -> dict[str, Any]:
    path = login_file()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise TeamServerError(f"{path} cannot be read.", ["remove it, and `workbench login` again"]) from None
    return found if isinstance(found, dict) else {}


def _write(path: Path, value: dict[str, Any]) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
        draft.replace(path)
    except OSError as error:
        raise TeamServerError(f"{path} cannot be written: {error.strerror}.", [f"set {TOKEN_VARIABLE} instead"]) from None
    finally:
        draft.unlink(missing_ok=True)
