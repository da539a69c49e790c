"""Find the server URL and token: explicit arguments, then `WORKBENCH_SERVER` and `WORKBENCH_TOKEN`, then the file of
`workbench login`.

**Invariants**

- The file is readable by its owner only (0600), and is written atomically.
- A saved token is sent only to the server that it was saved for.
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
    """A missing server setting, a failed request or a refusal; `status` is the HTTP status, 0 without a response."""

    def __init__(self, message: str, ways_out: Any = (), status: int = 0) -> None:
        super().__init__(message, ways_out)
        self.status = status


@dataclass(frozen=True, slots=True)
class ServerLogin:
    """A server URL without a trailing slash, and a token for it."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"ServerLogin({self.url!r})"  # keeps the token out of logs


def find_login(url: str | None = None, token: str | None = None) -> ServerLogin:
    """Find the server and token to use. Raises `TeamServerError` if either is missing."""
    saved = _read()
    server = url or os.environ.get(SERVER_VARIABLE) or saved.get("default")
    if not server:
        raise TeamServerError(
            "No team server is given.", ["workbench login https://plans.example.org", f"set {SERVER_VARIABLE}", "--server URL"]
        )
    server = clean_address(server)
    key = token or os.environ.get(TOKEN_VARIABLE) or saved.get("tokens", {}).get(server)
    if not key:
        raise TeamServerError(f"There is no token for {server}.", [f"workbench login {server}", f"set {TOKEN_VARIABLE}", "--token TOKEN"])
    if not key.isascii() or not key.isprintable():
        raise TeamServerError("The token contains invalid characters.", ["copy it once more"])
    return ServerLogin(server, key)


def save_login(login: ServerLogin) -> Path:
    """Save a login as the default, and return the path of the file."""
    saved, path = _read(), login_file()
    tokens = {**saved.get("tokens", {}), login.url: login.token}
    _write(path, {"default": login.url, "tokens": tokens})
    return path


def forget_login(url: str) -> bool:
    """Delete the saved login of a server; returns whether one existed."""
    saved = _read()
    tokens = {server: token for server, token in saved.get("tokens", {}).items() if server != url}
    if len(tokens) == len(saved.get("tokens", {})):
        return False
    _write(login_file(), {"default": saved.get("default") if saved.get("default") != url else next(iter(tokens), None), "tokens": tokens})
    return True


def clean_address(url: str) -> str:
    """Strip query and fragment of a URL. Raises `TeamServerError` if it is invalid."""
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise TeamServerError(f"`{url[:200]}` is not an address of a server.", ["give it as `https://plans.example.org`"])
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_unencrypted(url: str) -> bool:
    """Whether traffic to a URL crosses a network unencrypted.

    >>> is_unencrypted("http://plans.example.org"), is_unencrypted("http://127.0.0.1:5007")
    (True, False)
    """
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")


def login_file() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "sharding-workbench" / "logins.json"


def _read() -> dict[str, Any]:
    path = login_file()
    try:
        logins = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise TeamServerError(f"{path} cannot be read.", ["remove it, and `workbench login` again"]) from None
    return logins if isinstance(logins, dict) else {}


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
