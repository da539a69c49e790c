"""Named scopes for modules that have none: while a loss is traced, what a module computes is under its place in the model,
`blocks/0/attention`. Linen, Haiku and Keras do so themselves; NNX and Equinox do not."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

Path = tuple[Any, ...]
Walk = Callable[[Any], Iterable[tuple[Path, Any]]]
_LOCK = threading.RLock()
"""Classes are patched by one trace at a time: what two of them put back could be the other's."""


@contextmanager
def module_scopes(model: Any, walk: Walk) -> Iterator[None]:
    """Calls of the model's modules, which `walk` lists with their paths, are in named scopes until this ends."""
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
    """Where each module stands in the model, and which are being called."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self.known: dict[int, tuple[Path, Any]] = {}
        self._calls: list[tuple[Path, Any]] = []

    def add(self, model: Any) -> None:
        """The modules keep their first places, and live as long as this: an `id` is not used again."""
        for path, module in self._walk(model):
            self.known.setdefault(id(module), (path, module))

    def scoped(self, kind: type) -> Callable[..., Any]:
        """The `__call__` of a class, in a scope."""
        call = next(vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base))

        def scoped(module: Any, *args: Any, **kwargs: Any) -> Any:
            bound = call.__get__(module, type(module))
            if self._calls and self._calls[-1][1] is module:  # a class calls the one it is derived from
                return bound(*args, **kwargs)
            with self._scope(module):
                return bound(*args, **kwargs)

        return scoped

    @contextmanager
    def _scope(self, module: Any) -> Iterator[None]:
        if id(module) not in self.known:  # made in the trace, as the body of a scan is: its parts are named as seen from it
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
