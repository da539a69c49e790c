"""Named scopes by module path (`blocks/0/attention`) for NNX and Equinox; Linen, Haiku and Keras add them themselves."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

Path = tuple[Any, ...]
Walk = Callable[[Any], Iterable[tuple[Path, Any]]]
_LOCK = threading.RLock()
"""Only one trace patches classes at a time; otherwise one could restore the patch of another."""


@contextmanager
def module_scopes(model: Any, walk: Walk) -> Iterator[None]:
    """Run the calls of modules in named scopes; `walk` lists the modules with their paths."""
    scopes = _Scopes(walk)
    scopes.add(model)
    with _LOCK:
        classes = {type(module) for _, module in scopes.known.values()}
        originals = [
            (kind, kind.__dict__.get("__call__"), scopes.scoped(kind))
            for kind in classes
            if any("__call__" in vars(base) for base in kind.__mro__)
        ]
        for kind, _, scoped in originals:
            type.__setattr__(kind, "__call__", scoped)
        try:
            yield
        finally:
            for kind, original, _ in originals:
                type.__delattr__(kind, "__call__") if original is None else type.__setattr__(kind, "__call__", original)


class _Scopes:
    """The path of each module, and the stack of active calls."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self.known: dict[int, tuple[Path, Any]] = {}
        self._calls: list[tuple[Path, Any]] = []

    def add(self, model: Any) -> None:
        """Register modules under their first path; the references keep each `id` from being reused."""
        for path, module in self._walk(model):
            self.known.setdefault(id(module), (path, module))

    def scoped(self, kind: type) -> Callable[..., Any]:
        """The `__call__` of a class, wrapped in a scope."""
        call = next(vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base))

        def scoped(module: Any, *args: Any, **kwargs: Any) -> Any:
            bound = call.__get__(module, type(module))
            if self._calls and self._calls[-1][1] is module:  # a call of the base class
                return bound(*args, **kwargs)
            with self._scope(module):
                return bound(*args, **kwargs)

        return scoped

    @contextmanager
    def _scope(self, module: Any) -> Iterator[None]:
        if id(module) not in self.known:  # created during the trace, as a scan body is: paths are relative to it
            self.add(module)
        path = self.known[id(module)][0]
        outer = self._calls[-1][0] if self._calls else ()
        words = path[len(outer) :] if path[: len(outer)] == outer else path
        self._calls.append((path, module))
        try:
            if words:
                with jax.named_scope("/".join(map(str, words))):
                    yield
            else:
                yield
        finally:
            self._calls.pop()
