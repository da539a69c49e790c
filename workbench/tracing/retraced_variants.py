"""A function traced anew under each remat policy, precision and offload that an edit asks for."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from workbench.core.offload import Offload
from workbench.core.precision import Precision
from workbench.core.program import Program
from workbench.core.remat import Remat

MOST_VARIANTS = 8  # kept, so that going back to one is instant


class Variants:
    """`Program.retrace` of the programs it makes: `make(remat, precision, offload)`, each once.

    What it keeps does not refer to it, only what it returns does: a program that refers to its variants, and they to it, would be freed by
    a full garbage collection alone, which Python puts off as long as most of what it finds is in use.
    It can be sent to another process if `make` can; what was traced is not sent along.
    """

    def __init__(self, make: Callable[[Remat, Precision, Offload], Program]) -> None:
        self._make = make
        self._known = lru_cache(maxsize=MOST_VARIANTS)(partial(_trace, make))

    def __call__(self, remat: Remat, precision: Precision, offload: Offload) -> Program:
        return replace(self._known(remat, precision, offload), remat=remat, precision=precision, offload=offload, retrace=self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Variants, (self._make,)


def _trace(make: Callable[[Remat, Precision, Offload], Program], remat: Remat, precision: Precision, offload: Offload) -> Program:
    with _gc_paused():
        return make(remat, precision, offload)


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Tracing makes many objects and hardly any cyclic garbage: looking for it again and again takes a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
