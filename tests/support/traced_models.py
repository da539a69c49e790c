"""Models of the zoo that the tests of one process build are traced and lowered once.

`build` returns a new `Program` each time, so that nothing derived from one (reports, stages, compiled steps) is shared, as for users.
"""

from functools import lru_cache, wraps

from workbench.core.program import Program
from workbench.models.registry import ALL_MODELS
from workbench.tracing import retraced_variants

MOST_PROGRAMS = 8
"""Kept for each model, the least recently used dropped first."""


def trace_each_once() -> None:
    """Remember what each model of the zoo traces, by its arguments, and how searches of other files of tests trace it again."""
    retraced_variants.MOST_VARIANTS = 32
    for model in ALL_MODELS:
        object.__setattr__(model, "build", _remembered(model.build))


def _remembered(build):
    known = lru_cache(maxsize=MOST_PROGRAMS, typed=True)(build)

    @wraps(build)
    def build_once(**arguments) -> Program:
        try:
            return known(**arguments)
        except TypeError:  # a list, which has no hash
            return build(**arguments)

    return build_once
