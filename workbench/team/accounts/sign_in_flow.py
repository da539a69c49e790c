"""A sign-in under way: what must be the same when the browser comes back from the provider. It is in a signed cookie, for ten minutes.

**Invariants**

- A flow ends in the browser that began it: its `state` is in that browser's cookie. So nobody is signed in by a link to another's answer.
- A flow ends once: its `state` is remembered until it would be too old anyway.
"""

import hmac
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass

from tornado.web import create_signed_value, decode_signed_value

from workbench.team.accounts.identities import SignInError
from workbench.team.accounts.secret_key import derive_key

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
    """A flow that begins now."""
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return SignInFlow(provider, state, nonce, verifier, next_path, invitation)


class FlowCookies:
    """Writes flows into cookies, and reads each once."""

    def __init__(self, secret_key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = derive_key(secret_key, "sign-in flow"), clock
        self._ended: OrderedDict[str, float] = OrderedDict()

    def write(self, name: str, flow: SignInFlow) -> str:
        """The value of the cookie `name`."""
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
    message = "This sign-in was not begun in this browser, or took longer than ten minutes, or was ended already."
    return SignInError(message, ["sign in again"])
