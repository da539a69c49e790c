"""What a traced function computes and its step does not: values that no result needs, and those the planner prunes as irrelevant."""

from collections.abc import Iterator
from typing import Any

from jax.extend import core as jex_core

from workbench.core.program import Program, RemovedValue
from workbench.tracing.jaxpr.equations import calls_library, jaxprs_in, path_of_equation, source_line

_DEAD = "no result depends on it, so JAX leaves it out"
_PRUNED = "it does not affect sharding, so the planner leaves it out"


def removed_values(jaxpr: Any, program: Program) -> tuple[RemovedValue, ...]:
    """The values of a traced function that are not among the program's operations, in order of appearance."""
    present = {op.path for op in program.operations}
    found: dict[tuple[str, str], RemovedValue] = {}
    for path, source, is_live in _walk_values(jaxpr, ""):
        if path not in present:
            ways_out = (
                ("annotate what reads it", "annotate what it reads")
                if is_live
                else ("return what depends on it", "take the statement away")
            )
            found.setdefault((path, source), RemovedValue(path, source, _PRUNED if is_live else _DEAD, ways_out))
    return tuple(found.values())


def _walk_values(jaxpr: Any, scope: str, *, is_live: bool = True, called: str = "") -> Iterator[tuple[str, str, bool]]:
    """Path, source line and use of each value; inside a library's function the line is the one that it is `called` in."""
    live = _find_live(jaxpr)
    for eqn, needed in zip(jaxpr.eqns, live, strict=True):
        path, inner = path_of_equation(eqn, scope)
        source = called or source_line(eqn)
        yield path, source, is_live and needed
        within = source if called or calls_library(eqn) else ""
        for each in jaxprs_in(eqn):
            yield from _walk_values(each, inner, is_live=is_live and needed, called=within)


def _find_live(jaxpr: Any) -> list[bool]:
    """For each equation, whether a result depends on it."""
    needed = {atom for atom in jaxpr.outvars if not isinstance(atom, jex_core.Literal)}
    found = []
    for eqn in reversed(jaxpr.eqns):
        is_live = bool(eqn.effects) or any(var in needed for var in eqn.outvars)
        found.append(is_live)
        if is_live:
            needed.update(atom for atom in eqn.invars if not isinstance(atom, jex_core.Literal))
    return found[::-1]
