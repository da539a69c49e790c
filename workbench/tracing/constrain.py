"""Sharding constraints on intermediate values of a function, without editing the function.

The function's jaxpr is rebuilt with `with_sharding_constraint` after each operation whose path matches; loops, remat
and custom derivatives keep their structure. Paths are those of reports
(`propagation.module.source_location.readable_path`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
from jax.extend import core as jex_core
from jax.sharding import NamedSharding, PartitionSpec

from workbench.core.path_patterns import is_line, selects
from workbench.core.sharding import Sharding
from workbench.tracing.jaxpr.equations import calls_library, path_of_equation, source_line

Constraints = Sequence[tuple[str, Sharding]]


class Caller(NamedTuple):
    """The call of a jaxpr: its named scope, and the user's line if the function is a library's."""

    scope: str = ""
    line: str = ""


def constrain(call: Callable[..., Any], constraints: Constraints, mesh: jax.sharding.Mesh) -> Callable[..., tuple[Any, ...]]:
    """`call`, which returns a flat tuple, with constraints on selected values of their rank; `?` stays open."""
    if not constraints:
        return call

    def constrained_call(*args: Any) -> tuple[Any, ...]:
        closed = jax.make_jaxpr(call)(*args)
        return tuple(_evaluate(closed.jaxpr, closed.consts, args, Caller(), constraints, mesh))

    return constrained_call


def partition_spec(sharding: Sharding) -> PartitionSpec:
    """JAX's spec of a sharding: `[data, -, a+b, ?]` is `P('data', None, ('a', 'b'), P.UNCONSTRAINED)`."""
    return PartitionSpec(
        *(PartitionSpec.UNCONSTRAINED if dim is None else dim[0] if len(dim) == 1 else dim or None for dim in sharding.dims)
    )


def _evaluate(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], caller: Caller, constraints: Constraints, mesh: Any) -> list[Any]:
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, jex_core.Literal) else values[atom]

    for eqn in jaxpr.eqns:
        path, inner = path_of_equation(eqn, caller.scope)
        source = (caller.line or source_line(eqn)) if any(is_line(pattern) for pattern, _ in constraints) else ""
        params = _rebuild_params(eqn.params, Caller(inner, source if caller.line or calls_library(eqn) else ""), constraints, mesh)
        outputs = _evaluate_equation(jaxpr, eqn.replace(params=params), read)
        values.update(zip(eqn.outvars, (_constrain_value(output, path, source, constraints, mesh) for output in outputs), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _evaluate_equation(jaxpr: Any, eqn: Any, read: Callable[[Any], Any]) -> list[Any]:
    """Evaluate one equation as a separate jaxpr, which keeps its named scope and source line."""
    variables = list(dict.fromkeys(atom for atom in eqn.invars if not isinstance(atom, jex_core.Literal)))
    single = jaxpr.replace(
        constvars=[], invars=variables, outvars=eqn.outvars, eqns=[eqn], debug_info=jaxpr.debug_info.with_unknown_names()
    )
    results: list[Any] = jex_core.jaxpr_as_fun(jex_core.ClosedJaxpr(single, ()))(*map(read, variables))
    return results


def _constrain_value(value: Any, path: str, source: str, constraints: Constraints, mesh: Any) -> Any:
    for pattern, sharding in reversed(constraints):  # the last one that matches applies
        if len(sharding.dims) == getattr(value, "ndim", -1) and selects(pattern, path, source):
            return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, partition_spec(sharding)))
    return value


def _rebuild_params(params: dict[str, Any], caller: Caller, constraints: Constraints, mesh: Any) -> dict[str, Any]:
    rebuild = partial(_rebuild_jaxpr, caller=caller, constraints=constraints, mesh=mesh)
    return {
        key: tuple(rebuild(item) for item in value) if isinstance(value, tuple) and value and _is_jaxpr(value[0]) else rebuild(value)
        for key, value in params.items()
    }


def _is_jaxpr(value: Any) -> bool:
    return isinstance(value, (jex_core.ClosedJaxpr, jex_core.Jaxpr))


def _rebuild_jaxpr(value: Any, caller: Caller, constraints: Constraints, mesh: Any) -> Any:
    if not _is_jaxpr(value):
        return value
    closed = value if isinstance(value, jex_core.ClosedJaxpr) else jex_core.ClosedJaxpr(value, ())
    specs = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype, weak_type=var.aval.weak_type) for var in closed.jaxpr.invars]
    rebuilt = jax.make_jaxpr(lambda *args: _evaluate(closed.jaxpr, closed.consts, args, caller, constraints, mesh))(*specs)
    return rebuilt if isinstance(value, jex_core.ClosedJaxpr) else rebuilt.jaxpr
