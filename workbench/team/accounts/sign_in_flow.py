"""Pending sign-ins, stored in a cookie for ten minutes, and the server's secret key that signs it.

**Invariants**

- A flow ends in the browser that started it, because its `state` is in that browser's cookie. A link to somebody else's
  response signs nobody in.
- A flow ends once: its `state` is remembered until the cookie would have expired.
"""

import hmac
import json
import os
import secrets
import stat
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from tornado.web import create_signed_value, decode_signed_value

from workbench.errors import WorkbenchError, explain_os_errors
from workbench.team.accounts.identities import SignInError

LASTS = 600.0
"""Lifetime of a flow in seconds."""
_MOST_STATES = 10_000


@dataclass(frozen=True, slots=True)
class SignInFlow:
    """A pending sign-in with its OAuth `state`, OpenID Connect `nonce` and PKCE `verifier`."""

    provider: str
    state: str
    nonce: str
    verifier: str
    next: str
    invitation: str = ""


def new_flow(provider: str, next_path: str, invitation: str = "") -> SignInFlow:
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return SignInFlow(provider, state, nonce, verifier, next_path, invitation)


class FlowCookies:
    """Writes flows into signed cookies, and accepts each once."""

    def __init__(self, secret_key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = derive_key(secret_key, "sign-in flow"), clock
        self._ended: OrderedDict[str, float] = OrderedDict()

    def write(self, name: str, flow: SignInFlow) -> str:
        return create_signed_value(self._key, name, json.dumps(asdict(flow)), clock=self._clock).decode("ascii")

    def end(self, name: str, cookie: str, provider: str, state: str) -> SignInFlow:
        """Return the flow of a cookie once, if provider and state match. Raises `SignInError`."""
        days = LASTS / 86_400
        text = decode_signed_value(self._key, name, cookie, max_age_days=days, clock=self._clock) if len(cookie) <= 8192 else None
        flow = SignInFlow(**json.loads(text)) if text else None
        if flow is None or flow.provider != provider or not hmac.compare_digest(flow.state.encode(), state.encode("utf-8", "replace")):
            raise _unknown()
        self._forget_old()
        if flow.state in self._ended:
            raise _unknown()
        self._ended[flow.state] = self._clock()
        return flow

    def _forget_old(self) -> None:
        while self._ended and (len(self._ended) >= _MOST_STATES or next(iter(self._ended.values())) < self._clock() - LASTS):
            self._ended.popitem(last=False)


def _unknown() -> SignInError:
    message = "This sign-in was started in another browser, took longer than ten minutes, or is already complete."
    return SignInError(message, ["sign in again"])


# The server's secret key: created once in the data folder, readable only by the owner.

FILE = "secret_key"
_BYTES = 32


def load_secret_key(data: Path) -> bytes:
    """Read or create the secret key. Raises `WorkbenchError` if it is invalid or other users can read it."""
    path = data / FILE
    with explain_os_errors(f"The secret key {path} cannot be written", WorkbenchError, "choose your own data folder"):
        _make(path)
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise WorkbenchError(f"Other users of this machine can read the secret key {path}.", [f"run `chmod 600 {path}`"])
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        key = b""
    if len(key) < _BYTES:
        ways_out = [f"delete {path}: the server creates a new key, and open pages reload"]
        raise WorkbenchError(f"{path} does not contain a secret key of {_BYTES} bytes.", ways_out)
    return key


def derive_key(secret_key: bytes, purpose: str) -> str:
    """Derive a key for one purpose, so that signatures are not valid for another."""
    return hmac.new(secret_key, purpose.encode(), sha256).hexdigest()


def _make(path: Path) -> None:
    """Create the key file if it is missing, atomically, because another process may start at the same time."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{FILE}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_bytes(_BYTES).hex() + "\n")
    try:
        os.link(draft, path)  # fails if another process was faster
    except FileExistsError:
        pass
    finally:
        draft.unlink()
