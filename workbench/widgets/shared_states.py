"""States shared by the boards of a session, built and serialised once; and deferral of work to a host's event loop.

**Invariants**

- A shared value depends only on its subject `of` and its name, and is never modified.
- Values do not outlive their session; only those of the last few plans and reports are kept.
"""

import json
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

MOST_SUBJECTS, MOST_NAMES = 4, 24
"""Most recently used plans and reports whose values are kept, and values kept for each."""


class SharedList(list[Any]):
    """A list of JSON values, never modified. `text` caches its JSON; `change` the last diff to it, with its base."""

    __slots__ = ("__weakref__", "change", "text")

    def __init__(self, values: list[Any]) -> None:
        super().__init__(values)
        self.text: str | None = None
        self.change: tuple[weakref.ref[Any], str | None] | None = None


class SharedStates:
    """The shared values of one session's boards. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subjects: OrderedDict[int, tuple[object, OrderedDict[Hashable, Any]]] = OrderedDict()

    def get(self, of: object, name: Hashable, make: Callable[[], T]) -> T:
        """Return the value of this name for `of`, made by `make` if it is missing."""
        with self._lock:
            values = self._values(of)
            if name in values:
                values.move_to_end(name)
                value: T = values[name]
                return value
        made = make()
        with self._lock:
            values[name] = made
            while len(values) > MOST_NAMES:
                values.popitem(last=False)
        return made

    def _values(self, of: object) -> OrderedDict[Hashable, Any]:
        subject = self._subjects.setdefault(id(of), (of, OrderedDict()))  # a reference to `of` keeps its id unique
        self._subjects.move_to_end(id(of))
        while len(self._subjects) > MOST_SUBJECTS:
            self._subjects.popitem(last=False)
        return subject[1]


_of_sessions: weakref.WeakKeyDictionary[Any, SharedStates] = weakref.WeakKeyDictionary()


def shared_states(session: Any) -> SharedStates:
    return _of_sessions.setdefault(session, SharedStates())


def json_text(value: Any) -> str:
    """Serialise a value for a page; the text of a shared list is cached."""
    if isinstance(value, SharedList):
        if value.text is None:
            value.text = _dump(value)
        return value.text
    return _dump(value)


def json_value(text: str) -> Any:
    return _decoder.decode(text)


def _dump(value: Any) -> str:
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate, which a page may send, is not valid UTF-8: replaced by `?`
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode(errors="replace").decode()


def _plain(value: Any) -> Any:
    kinds: tuple[type[Any], ...] = (float, int, str, dict, list)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{value!r:.80} cannot be sent to a page.")


_encoder, _decoder = msgspec.json.Encoder(enc_hook=_plain), msgspec.json.Decoder()


# Deferral of work to the event loop of a board's host.

Defer = Callable[[Callable[[], None]], None]
"""Moves work from any thread to the end of the host's event loop."""


def at_once(work: Callable[[], None]) -> None:
    """Call work immediately instead of deferring it."""
    work()
