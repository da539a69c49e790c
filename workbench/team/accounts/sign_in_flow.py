"""A sign-in under way: what must be the same when the browser comes back from the provider, in a cookie of ten minutes, signed with the
server's secret key, which is made and kept here.

**Invariants**

- A flow ends in the browser that began it: its `state` is in that browser's cookie. So nobody is signed in by a link to another's answer.
- A flow ends once: its `state` is remembered until it would be too old anyway.
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

from workbench.errors import WorkbenchError
from workbench.team.accounts.identities import SignInError

LASTS = 600.0
"""Seconds."""
_MOST_STATES = 10_000


@dataclass(frozen=True, slots=True)
class SignInFlow:
    """`provider` is its name in this server; `state`, `nonce` and `verifier` are OAuth's, OpenID Connect's and PKCE's."""

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
    """Writes flows into cookies, and reads each once."""

    def __init__(self, secret_key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = derive_key(secret_key, "sign-in flow"), clock
        self._ended: OrderedDict[str, float] = OrderedDict()

    def write(self, name: str, flow: SignInFlow) -> str:
        return create_signed_value(self._key, name, json.dumps(asdict(flow)), clock=self._clock).decode("ascii")

    def end(self, name: str, cookie: str, provider: str, state: str) -> SignInFlow:
        """The flow of a cookie, if it has the `state` that came back from `provider`. Raises `SignInError`; each flow is given once."""
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


# The server's secret key: made once, in the data folder, for the owner's eyes alone.

FILE = "secret_key"
_BYTES = 32


def load_secret_key(data: Path) -> bytes:
    """The key in a data folder; made if there is none. Raises `WorkbenchError` for one that others of the machine can read, or that is
    none."""
    path = data / FILE
    try:
        _make(path)
    except OSError as error:
        raise WorkbenchError(f"The secret key {path} cannot be written: {error.strerror}.", ["choose your own data folder"]) from None
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
    """A key for one purpose, so that what is signed for one is never good for another."""
    return hmac.new(secret_key, purpose.encode(), sha256).hexdigest()


def _make(path: Path) -> None:
    """Write a new key, unless there is a file: whole from its first moment, for another process may begin at the same time."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{FILE}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_bytes(_BYTES).hex() + "\n")
    try:
        os.link(draft, path)  # fails where another was faster
    except FileExistsError:
        pass
    finally:
        draft.unlink()
