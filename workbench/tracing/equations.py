"""Equations of a jaxpr: what they read, which of them something follows from, and some of them as a jaxpr again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jax.extend import core as jex_core

from workbench.partition import readable_path

PARAMETERS, BATCH, BOTH = 1, 2, 3


def variables(atoms: Iterable[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, jex_core.Literal)]


def scope_of(eqn: Any) -> str:
    """The named scope of a flat equation, as the user reads it."""
    return readable_path(f"jit(loss)/{eqn.source_info.name_stack}").removesuffix("/")


def needed(eqns: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """The equations that the outputs follow from, in their order."""
    wanted = set(variables(outputs))
    kept = []
    for eqn in reversed(eqns):
        if any(var in wanted for var in eqn.outvars):
            kept.append(eqn)
            wanted.update(variables(eqn.invars))
    return kept[::-1]


def parts_in(eqns: Iterable[Any], part: dict[Any, int]) -> list[int]:
    """Of each equation: whether parameters (1), the batch (2) or both (3) have part in it; `part` says it of their variables, and is
    completed."""
    kinds = []
    for eqn in eqns:
        kind = 0
        for var in variables(eqn.invars):
            kind |= part.get(var, 0)
        part.update(dict.fromkeys(eqn.outvars, kind))
        kinds.append(kind)
    return kinds


def closed_jaxpr(base: Any, constants: Mapping[Any, Any], invars: Sequence[Any], eqns: Sequence[Any], outvars: Sequence[Any]) -> Any:
    """Equations without effects, taken from those of the jaxpr `base`, as one of their own; `constants` are variables with their values."""
    jaxpr = base.replace(
        constvars=list(constants),
        invars=list(invars),
        outvars=list(outvars),
        eqns=list(eqns),
        effects=set(),
        debug_info=base.debug_info.with_unknown_names(),
    )
    return jex_core.ClosedJaxpr(jaxpr, list(constants.values()))
