"""What a form did, said on the page that follows: it travels in one signed cookie, for that person and once.

**Invariants**

- Nobody can make a page of this server say something: the cookie is signed with the server's key, and for one person.
- Fields that were typed travel along, so that a form that was refused is not typed again; passwords never.
"""

import base64
import binascii
import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Literal

SAID_COOKIE = "workbench-said"
LASTS = 60.0
"""Seconds that a browser keeps it; the next page takes it away."""
_MOST_TEXT, _MOST_FIELDS, _MOST_COOKIE = 900, 1_200, 3_600
_HIDDEN = ("password", "secret")


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """`form` is the address that was posted to, `fields` are what was typed into it."""

    kind: Literal["good", "bad"]
    text: str
    ways_out: tuple[str, ...] = ()
    form: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


def write_said(message: SaidMessage, key: bytes, person: str) -> str:
    """The value of the cookie."""
    fields = {name: text for name, text in message.fields.items() if not any(word in name for word in _HIDDEN)}
    for kept in (fields if len(json.dumps(fields)) <= _MOST_FIELDS else {}, {}):
        value = {
            **asdict(message),
            "text": message.text[:_MOST_TEXT],
            "ways_out": [each[:200] for each in message.ways_out[:4]],
            "fields": kept,
        }
        body = base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
        if len(body) <= _MOST_COOKIE:
            return f"{body}.{_signature(body, key, person)}"
    return ""


def read_said(cookie: str, key: bytes, person: str) -> SaidMessage | None:
    """The inverse of `write_said`; `None` for what this server did not say to this person."""
    body, _, signature = cookie.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(body, key, person).encode()):
        return None
    try:
        value: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, binascii.Error):
        return None
    return SaidMessage(value["kind"], value["text"], tuple(value["ways_out"]), value["form"], value["fields"])


def _signature(body: str, key: bytes, person: str) -> str:
    return hmac.new(key, f"said\0{person}\0{body}".encode(), sha256).hexdigest()
