"""A jaxpr with its calls inlined."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jax.extend import core as jex_core

from workbench.tracing.jaxpr.equations import CALLS


def inline(closed: Any) -> tuple[list[Any], dict[Any, Any], list[Any]]:
    """Equations of a jaxpr with its calls inlined, values of constants, results."""
    inlined = Inlining()
    outvars = inlined.block(closed, closed.jaxpr.invars, None)
    return inlined.eqns, inlined.constants, outvars


@dataclass(slots=True)
class Inlining:
    """Replaces each call by what it calls. JAX shares one jaxpr among calls that are alike, so variables are made anew."""

    eqns: list[Any] = field(default_factory=list)
    constants: dict[Any, Any] = field(default_factory=dict)

    def block(self, closed: Any, arguments: Sequence[Any], stack: Any) -> list[Any]:
        jaxpr = closed.jaxpr
        known = dict(zip(jaxpr.invars, arguments, strict=True))
        for var, value in zip(jaxpr.constvars, closed.consts, strict=True):
            known[var] = jex_core.Var(var.aval)
            self.constants[known[var]] = value
        for eqn in jaxpr.eqns:
            scope = eqn.source_info.name_stack if stack is None else stack + eqn.source_info.name_stack
            invars = [_substitute(known, atom) for atom in eqn.invars]
            if eqn.primitive.name in CALLS and (inner := _called_jaxpr(eqn)) is not None:
                results = self.block(inner, invars, scope)
                known.update(zip(eqn.outvars, results, strict=True))
                continue
            fresh = [jex_core.Var(var.aval) for var in eqn.outvars]
            known.update(zip(eqn.outvars, fresh, strict=True))
            self.eqns.append(eqn.replace(invars=invars, outvars=fresh, source_info=eqn.source_info.replace(name_stack=scope)))
        return [_substitute(known, atom) for atom in jaxpr.outvars]


def _substitute(known: dict[Any, Any], atom: Any) -> Any:
    return atom if isinstance(atom, jex_core.Literal) else known.get(atom, atom)


def _called_jaxpr(eqn: Any) -> Any:
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    return inner if isinstance(inner, jex_core.ClosedJaxpr) else None
