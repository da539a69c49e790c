"""What several boards of one session show alike: it is made once, and so is its text. And how work reaches the event loop of a board's
host.

**Invariants**

- A shared value follows from what it is `of`, and from its name, alone; and nobody changes it.
- Nothing outlives its session, and only what follows from the last few plans and reports is kept.
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
"""Plans and reports whose values are kept, and values of each: the last used."""


class SharedList(list[Any]):
    """A list of JSON values that nobody changes. `text` is it as JSON, once somebody asked; `change` is the last change to it that was
    found, and of what."""

    __slots__ = ("__weakref__", "change", "text")

    def __init__(self, values: list[Any]) -> None:
        super().__init__(values)
        self.text: str | None = None
        self.change: tuple[weakref.ref[Any], str | None] | None = None


class SharedStates:
    """The values of one session's boards. It may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subjects: OrderedDict[int, tuple[object, OrderedDict[Hashable, Any]]] = OrderedDict()

    def get(self, of: object, name: Hashable, make: Callable[[], T]) -> T:
        """The value of this name that follows from `of`, which `make` makes if there is none yet."""
        with self._lock:
            values = self._values(of)
            if name in values:
                values.move_to_end(name)
                found: T = values[name]
                return found
        made = make()
        with self._lock:
            values[name] = made
            while len(values) > MOST_NAMES:
                values.popitem(last=False)
        return made

    def _values(self, of: object) -> OrderedDict[Hashable, Any]:
        subject = self._subjects.setdefault(id(of), (of, OrderedDict()))  # it holds `of`, whose id is no other's meanwhile
        self._subjects.move_to_end(id(of))
        while len(self._subjects) > MOST_SUBJECTS:
            self._subjects.popitem(last=False)
        return subject[1]


_of_sessions: weakref.WeakKeyDictionary[Any, SharedStates] = weakref.WeakKeyDictionary()


def shared_states(session: Any) -> SharedStates:
    """Those of the boards of a session."""
    return _of_sessions.setdefault(session, SharedStates())


def json_text(value: Any) -> str:
    """A value as a page takes it; of a shared list it is made once."""
    if isinstance(value, SharedList):
        if value.text is None:
            value.text = _dump(value)
        return value.text
    return _dump(value)


def json_value(text: str) -> Any:
    """The value of a text of `json_text`."""
    return _decoder.decode(text)


def _dump(value: Any) -> str:
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate, which a page may send and no UTF-8 has: `?` stands for it
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode(errors="replace").decode()


def _plain(value: Any) -> Any:
    """A subclass as what it is one of: NumPy's `float64` is a `float`, and `json` takes it as one."""
    kinds: tuple[type[Any], ...] = (float, int, str, dict, list)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{value!r:.80} cannot be sent to a page.")


_encoder, _decoder = msgspec.json.Encoder(enc_hook=_plain), msgspec.json.Decoder()


# How work reaches the event loop of a board's host.

Defer = Callable[[Callable[[], None]], None]
"""Moves work from any thread to the host's event loop, after what runs there."""


def at_once(work: Callable[[], None]) -> None:
    """Call it at once: no deferring."""
    work()
