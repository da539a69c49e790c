"""Values computed once from a program and cached with it: bounded in bytes over all programs, and freed with the program.

The values are stored in the program's own `__dict__`, so that they may refer to it: a value that outlived its program would keep it, and
all that belongs to it, alive for good. Equal programs share their values if their modules agree to the last name and source line: a
name may mark a hand-written kernel.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary, ref

from workbench.core.program import CACHE_ATTRIBUTE, Program

LIMIT = 256 << 20  # bytes of all cached values together
_OVERHEAD = 500  # bytes of bookkeeping per value

Given = ParamSpec("Given")
Value = TypeVar("Value")
Owner = TypeVar("Owner")
Key = tuple[Any, ...]


class HasProgram(Protocol):
    """A plan, or anything else that belongs to one program."""

    @property
    def program(self) -> Program: ...


Subject = TypeVar("Subject", bound=Program | HasProgram)


class _CachedValues:
    """The values cached with a program and its equals; each is counted under a number."""

    def __init__(self) -> None:
        self.values: dict[Key, tuple[int, Any]] = {}
        self.keys: dict[int, Key] = {}

    def drop(self, number: int) -> None:
        self.values.pop(self.keys.pop(number), None)


class _CachedSize(NamedTuple):
    """Where a cached value is, and its bytes."""

    cached: "ref[_CachedValues]"
    size: int


class ProgramCache:
    """Values cached with their programs; the least recently used of all are dropped once they are more than `limit` bytes together.

    The value requested last is kept even if it is larger than that: it is in use. Safe to use from any thread; two that ask for one value
    at the same moment may both make it.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.bytes = limit, 0
        self._lock = threading.RLock()
        self._numbers = count()
        self._recent: OrderedDict[int, _CachedSize] = OrderedDict()  # least recently used first
        self._values_of: WeakValueDictionary[Key, _CachedValues] = WeakValueDictionary()

    def get(self, program: Program, key: Key, make: Callable[[], Value], size: int) -> Value:
        """The value of this key, of `size` bytes; made if it is not cached."""
        cached = self._cached_values(program)
        with self._lock:
            if key in cached.values:
                number, value = cached.values[key]
                self._recent.move_to_end(number)
                return value
        return self._store(cached, key, make(), size + _OVERHEAD)

    def find(self, program: Program, key: Key) -> Any:
        """The value if it is cached, else `None`; nothing is made."""
        found = self._cached_values(program).values.get(key)
        return None if found is None else found[1]

    def _cached_values(self, program: Program) -> _CachedValues:
        cached: _CachedValues | None = program.__dict__.get(CACHE_ATTRIBUTE)
        if cached is None:
            key = (*program.identity, program.module)
            with self._lock:
                cached = self._values_of.get(key) or _CachedValues()
                program.__dict__[CACHE_ATTRIBUTE] = self._values_of[key] = cached
        return cached

    def _store(self, cached: _CachedValues, key: Key, value: Value, size: int) -> Value:
        with self._lock:
            if key in cached.values:  # another thread was quicker
                return cached.values[key][1]
            number = next(self._numbers)
            cached.values[key], cached.keys[number] = (number, value), key
            self._recent[number] = _CachedSize(ref(cached), size)
            self.bytes += size
            if self.bytes > self.limit:
                self._shrink(number)
        return value

    def _shrink(self, newest: int) -> None:
        """First forget the values of programs that are gone, then drop the oldest."""
        self._recent = OrderedDict((number, each) for number, each in self._recent.items() if each.cached() is not None)
        self.bytes = sum(each.size for each in self._recent.values())
        while self.bytes > self.limit and next(iter(self._recent)) != newest:
            number, each = self._recent.popitem(last=False)
            self.bytes -= each.size
            if (cached := each.cached()) is not None:
                cached.drop(number)


CACHE = ProgramCache()


def cache_with_program(
    bytes_per_operation: float,
) -> Callable[[Callable[Concatenate[Subject, Given], Value]], Callable[Concatenate[Subject, Given], Value]]:
    """A decorator for a function of a program, or of what belongs to one: its values are cached with the program.

    A value is counted as `bytes_per_operation` of the program, as measured on an unrolled GPT (benchmarks/kept_memory.py).
    """

    def decorate(function: Callable[Concatenate[Subject, Given], Value]) -> Callable[Concatenate[Subject, Given], Value]:
        @wraps(function)
        def call_cached(subject: Subject, /, *args: Given.args, **options: Given.kwargs) -> Value:
            program = subject if isinstance(subject, Program) else subject.program
            subject_key = () if program is subject else (subject,)
            key = (function, *subject_key, *args, *options.items())
            return CACHE.get(
                program, key, lambda: function(subject, *args, **options), round(bytes_per_operation * len(program.operations))
            )

        return call_cached

    return decorate


def cache_with_owner(
    function: Callable[Concatenate[Owner, Given], Value],
) -> Callable[Concatenate[Owner, Given], Value]:
    """A decorator for a function whose values are cached in the `__dict__` of its first argument, a network, say, and counted with that."""

    @wraps(function)
    def call_cached(owner: Owner, /, *args: Given.args, **options: Given.kwargs) -> Value:
        values: dict[Key, Value] = owner.__dict__.setdefault(f"{CACHE_ATTRIBUTE}_{function.__qualname__}", {})
        key = (*args, *options.items())
        if key not in values:
            values[key] = function(owner, *args, **options)
        return values[key]

    return call_cached
