"""A function traced anew under each remat policy, precision and offload that an edit asks for, and for each platform."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from workbench.core.offload import Offload
from workbench.core.precision import Precision
from workbench.core.program import Program
from workbench.core.proposed_names import ProposedNames
from workbench.core.remat import Remat
from workbench.recipes.propose_names import propose_names
from workbench.tracing.lower_for_platform import lowering_for

MOST_VARIANTS = 8  # kept, so that going back to one is instant


class Variants:
    """`Program.retrace` of the programs it makes: `make(remat, precision, offload)`, each once for a platform.

    What it keeps does not refer to it, only what it returns does: a program that refers to its variants, and they to it, would be freed by
    a full garbage collection alone, which Python puts off as long as most of what it finds is in use.
    It can be sent to another process if `make` can; what was traced is not sent along.
    """

    def __init__(self, make: Callable[[Remat, Precision, Offload], Program]) -> None:
        self._make = make
        self._known = lru_cache(maxsize=MOST_VARIANTS)(_NamingTracer(make))

    def __call__(self, remat: Remat, precision: Precision, offload: Offload, platform: str = "") -> Program:
        program = self._known(remat, precision, offload, platform or "cpu")
        return replace(program, remat=remat, precision=precision, offload=offload, retrace=self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Variants, (self._make,)


class _NamingTracer:
    """Traces the variants; all of them have the dimension names that are proposed for the first."""

    def __init__(self, make: Callable[[Remat, Precision, Offload], Program]) -> None:
        self._make = make
        self._names: ProposedNames | None = None

    def __call__(self, remat: Remat, precision: Precision, offload: Offload, platform: str) -> Program:
        with _gc_paused(), lowering_for(platform):
            program = propose_names(self._make(remat, precision, offload), self._names)
        self._names = self._names or program.proposed
        return program


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
