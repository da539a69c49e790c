"""A function traced anew under each remat policy and precision that an edit asks for."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from workbench.precision import Precision
from workbench.program import Program
from workbench.remat import Remat

MOST = 8  # kept, so that going back to one is instant


class Variants:
    """`Program.retrace` of the programs it makes: `make(remat, precision)`, each once.

    It can be sent to another process if `make` can; what was traced is not sent along.
    """

    def __init__(self, make: Callable[[Remat, Precision], Program]) -> None:
        self._make = make
        self._known = lru_cache(maxsize=MOST)(self._traced)

    def __call__(self, remat: Remat, precision: Precision) -> Program:
        return self._known(remat, precision)

    def __reduce__(self) -> tuple[Any, ...]:
        return Variants, (self._make,)

    def _traced(self, remat: Remat, precision: Precision) -> Program:
        return replace(self._make(remat, precision), remat=remat, precision=precision, retrace=self)
