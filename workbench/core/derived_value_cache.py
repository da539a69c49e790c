"""Cache values derived from a program; the cache is bounded in bytes over all programs and freed with the program.

Values are stored in the program's `__dict__` because they may refer to the program: a separate cache would keep it
alive. Equal programs share values only if their modules agree in every name and source line, since a name may mark a
hand-written kernel.
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
    """A plan, or another object with a program."""

    @property
    def program(self) -> Program: ...


Subject = TypeVar("Subject", bound=Program | HasProgram)


class _CachedValues:
    """Values cached for one program and its equals, each with a number for the shared LRU order."""

    def __init__(self) -> None:
        self.values: dict[Key, tuple[int, Any]] = {}
        self.keys: dict[int, Key] = {}

    def drop(self, number: int) -> None:
        self.values.pop(self.keys.pop(number), None)


class _CachedSize(NamedTuple):
    cached: "ref[_CachedValues]"
    size: int


class ProgramCache:
    """LRU cache of values stored with their programs, limited to `limit` bytes in total.

    Keeps the latest value even if larger. Thread-safe, but two threads may compute one value at the same time.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.bytes = limit, 0
        self._lock = threading.RLock()
        self._numbers = count()
        self._recent: OrderedDict[int, _CachedSize] = OrderedDict()  # least recently used first
        self._values_of: WeakValueDictionary[Key, _CachedValues] = WeakValueDictionary()

    def get(self, program: Program, key: Key, make: Callable[[], Value], size: int) -> Value:
        """Return the value of `key`, calling `make` if it is not cached; `size` is in bytes."""
        cached = self._cached_values(program)
        with self._lock:
            if key in cached.values:
                number, value = cached.values[key]
                self._recent.move_to_end(number)
                return value
        return self._store(cached, key, make(), size + _OVERHEAD)

    def find(self, program: Program, key: Key) -> Any:
        """Return the cached value, or `None`, without computing it."""
        entry = self._cached_values(program).values.get(key)
        return None if entry is None else entry[1]

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
        """Drop the values of deleted programs first, then the least recently used."""
        self._recent = OrderedDict((number, entry) for number, entry in self._recent.items() if entry.cached() is not None)
        self.bytes = sum(entry.size for entry in self._recent.values())
        while self.bytes > self.limit and next(iter(self._recent)) != newest:
            number, entry = self._recent.popitem(last=False)
            self.bytes -= entry.size
            if (cached := entry.cached()) is not None:
                cached.drop(number)


CACHE = ProgramCache()


def cache_with_program(
    bytes_per_operation: float,
) -> Callable[[Callable[Concatenate[Subject, Given], Value]], Callable[Concatenate[Subject, Given], Value]]:
    """Decorate a function of a program, or of an object with one, to cache its results with the program.

    Each counts as `bytes_per_operation` per operation, measured on an unrolled GPT (benchmarks/kept_memory.py).
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


def cache_with_owner(function: Callable[Concatenate[Owner, Given], Value]) -> Callable[Concatenate[Owner, Given], Value]:
    """Decorate a function to cache its results in the `__dict__` of its first argument."""

    @wraps(function)
    def call_cached(owner: Owner, /, *args: Given.args, **options: Given.kwargs) -> Value:
        values: dict[Key, Value] = owner.__dict__.setdefault(f"{CACHE_ATTRIBUTE}_{function.__qualname__}", {})
        key = (*args, *options.items())
        if key not in values:
            values[key] = function(owner, *args, **options)
        return values[key]

    return call_cached
