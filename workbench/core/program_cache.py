"""What is worked out from a program once and kept with it: bounded by bytes over all programs, and gone when the program goes.

The values lie in the program's own `__dict__`, so that they may refer to it: a value that outlives its program would hold it, and all that
belongs to it, for good. Programs that are equal share theirs, if their modules are the same to the last name and source line: what is a
kernel by hand stands in a name.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary, ref

from workbench.core.program import KEPT, Program

LIMIT = 256 << 20  # bytes of all kept values together
_OVERHEAD = 500  # bytes of a value's own bookkeeping

Given = ParamSpec("Given")
Value = TypeVar("Value")
Owner = TypeVar("Owner")
Key = tuple[Any, ...]


class OfProgram(Protocol):
    """A plan, or what else belongs to one program."""

    @property
    def program(self) -> Program: ...


Subject = TypeVar("Subject", bound=Program | OfProgram)


class _Kept:
    """What is kept with a program and its equals; a number stands for each value where they are counted."""

    def __init__(self) -> None:
        self.values: dict[Key, tuple[int, Any]] = {}
        self.keys: dict[int, Key] = {}

    def drop(self, number: int) -> None:
        self.values.pop(self.keys.pop(number), None)


class _Size(NamedTuple):
    """Where a value is, and its bytes."""

    kept: "ref[_Kept]"
    size: int


class ProgramCache:
    """Values kept with their programs, the least recently used of all dropped first once they are more than `limit` bytes together.

    The value asked for last is kept even if it is larger than that: it is at work. Safe to use from any thread; two that ask for one value
    at the same moment may both make it.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.bytes = limit, 0
        self._lock = threading.RLock()
        self._numbers = count()
        self._recent: OrderedDict[int, _Size] = OrderedDict()  # least recently used first
        self._of: WeakValueDictionary[Key, _Kept] = WeakValueDictionary()

    def get(self, program: Program, key: Key, make: Callable[[], Value], size: int) -> Value:
        """The value of this key, made if it is not kept, of so many bytes."""
        kept = self._kept(program)
        with self._lock:
            if key in kept.values:
                number, value = kept.values[key]
                self._recent.move_to_end(number)
                return value
        return self._keep(kept, key, make(), size + _OVERHEAD)

    def find(self, program: Program, key: Key) -> Any:
        """The value if it is kept, else `None`; nothing is made."""
        found = self._kept(program).values.get(key)
        return None if found is None else found[1]

    def _kept(self, program: Program) -> _Kept:
        kept: _Kept | None = program.__dict__.get(KEPT)
        if kept is None:
            key = (*program.identity, program.module)
            with self._lock:
                kept = self._of.get(key) or _Kept()
                program.__dict__[KEPT] = self._of[key] = kept
        return kept

    def _keep(self, kept: _Kept, key: Key, value: Value, size: int) -> Value:
        with self._lock:
            if key in kept.values:  # another thread was quicker
                return kept.values[key][1]
            number = next(self._numbers)
            kept.values[key], kept.keys[number] = (number, value), key
            self._recent[number] = _Size(ref(kept), size)
            self.bytes += size
            if self.bytes > self.limit:
                self._shrink(number)
        return value

    def _shrink(self, newest: int) -> None:
        """First forget what went with its program, then drop the oldest."""
        self._recent = OrderedDict((number, each) for number, each in self._recent.items() if each.kept() is not None)
        self.bytes = sum(each.size for each in self._recent.values())
        while self.bytes > self.limit and next(iter(self._recent)) != newest:
            number, each = self._recent.popitem(last=False)
            self.bytes -= each.size
            if (kept := each.kept()) is not None:
                kept.drop(number)


CACHE = ProgramCache()


def kept_with_program(
    bytes_per_operation: float,
) -> Callable[[Callable[Concatenate[Subject, Given], Value]], Callable[Concatenate[Subject, Given], Value]]:
    """A function of a program, or of what belongs to one, whose values are kept with the program.

    `bytes_per_operation` of the program is what a value takes, as measured on an unrolled GPT (benchmarks/kept_memory.py).
    """

    def decorate(function: Callable[Concatenate[Subject, Given], Value]) -> Callable[Concatenate[Subject, Given], Value]:
        @wraps(function)
        def kept(subject: Subject, /, *args: Given.args, **options: Given.kwargs) -> Value:
            program = subject if isinstance(subject, Program) else subject.program
            own = () if program is subject else (subject,)
            key = (function, *own, *args, *options.items())
            return CACHE.get(
                program, key, lambda: function(subject, *args, **options), round(bytes_per_operation * len(program.operations))
            )

        return kept

    return decorate


def kept_with_owner(
    function: Callable[Concatenate[Owner, Given], Value],
) -> Callable[Concatenate[Owner, Given], Value]:
    """A function whose values are kept in the `__dict__` of its first argument, a network, say, and counted with that."""

    @wraps(function)
    def kept(owner: Owner, /, *args: Given.args, **options: Given.kwargs) -> Value:
        values: dict[Key, Value] = owner.__dict__.setdefault(f"{KEPT}_{function.__qualname__}", {})
        key = (*args, *options.items())
        if key not in values:
            values[key] = function(owner, *args, **options)
        return values[key]

    return kept
