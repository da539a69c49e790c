"""Lowers a traced function for the platform of the plan's hardware, where JAX lowers a primitive differently per
platform.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from workbench.errors import TraceError
from workbench.tracing.jaxpr.equations import equations_below, size_of, source_line
from workbench.units import format_bytes

_PLATFORM = ContextVar("platform", default="cpu")
# JAX lowers these to LAPACK calls, cuSOLVER calls, loops, or products over all groups. Everything else is the same, or plainest for TPUs.
_BY_PLATFORM = {"approx_top_k", "cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu"} | {
    *("lu_pivots_to_permutation", "ormqr", "qr", "schur", "svd", "sylvester", "symmetric_product", "triangular_solve"),
    *("ragged_dot_general", "random_gamma", "tridiagonal", "tridiagonal_solve"),
}
_MISSING = re.compile(r"primitive '(\w+)' not found for platform")


class Lowered(NamedTuple):
    """StableHLO and its platform, empty if it is the same for all; `missing` is a primitive that the platform lacks."""

    module: Any
    platform: str
    missing: str = ""


@contextmanager
def lowering_for(platform: str) -> Iterator[None]:
    """A context manager that sets the platform to lower for: `cpu`, `cuda`, `tpu`."""
    token = _PLATFORM.set(platform)
    try:
        yield
    finally:
        _PLATFORM.reset(token)


def lower(traced: Any, name: str) -> Lowered:
    """Lower to StableHLO for the context's platform, or for TPUs, the plainest form, if the platform makes no
    difference.

    A print from the device (`jax.debug.print`) can only be lowered for the available backend.
    """
    verify_no_host_calls(traced.jaxpr.jaxpr, name)
    equations = [eqn for eqn, _ in equations_below(traced.jaxpr.jaxpr)]
    sharded_print = next((eqn.primitive.name for eqn in equations if eqn.params.get("partitioned")), "")
    is_alike = not sharded_print and _BY_PLATFORM.isdisjoint(eqn.primitive.name for eqn in equations)
    platform = "" if is_alike else _PLATFORM.get()
    if sharded_print:  # a backend's own: JAX has none for TPUs
        return Lowered(_lower_for(traced, "cpu"), platform, sharded_print if platform == "tpu" else "")
    try:
        return Lowered(_lower_for(traced, platform or "tpu"), platform)
    except NotImplementedError as error:
        if (missing := _MISSING.search(str(error))) is None or platform == "cpu":
            raise
        return Lowered(_lower_for(traced, "cpu"), platform or "tpu", missing[1])
    except ValueError as error:
        if "lowering platform" not in str(error):
            raise
    return Lowered(_lower_for(traced, "cpu"), platform)


def _lower_for(traced: Any, platform: str) -> Any:
    return traced.lower(lowering_platforms=(platform,)).compiler_ir("stablehlo")


# Host callbacks in a traced function: some can be planned, the others are refused with an alternative.
#
# A print (`jax.debug.print`, `jax.debug.callback`) is planned as compiled: its operands are gathered on one device. A
# callback that returns a value, or has an effect that must not be lost, stops every device in every step, and is refused.


_CALLS = ("pure_callback", "io_callback")
_PRINTS = ("debug_print", "debug_callback")
_EQUINOX = "equinox."
_MOST_NAMED = 3
_WAYS_OUT = {
    "pure_callback": "write what `pure_callback` computes in JAX, or compute it before the step and give it as an argument",
    "io_callback": "return what `io_callback` is given from the step, and call the function outside of it; `jax.debug.callback` can stay",
    "eqx.error_if": "set `EQX_ON_ERROR=nan` or `EQX_ON_ERROR=off` where the program is traced, which takes `eqx.error_if` out",
    "an ordered print": "leave `ordered=True` out: JAX has ordered effects on one device only",
}


class _HostCall(NamedTuple):
    kind: str
    source: str
    bytes: int

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"`{self.kind}`{where}" if " " not in self.kind else f"{self.kind}{where}"


def verify_no_host_calls(jaxpr: Any, name: str) -> None:
    """Raise `TraceError` for host callbacks that cannot be planned, each with its line and the bytes it would gather."""
    largest: dict[tuple[str, str], _HostCall] = {}  # per line, as Equinox makes several callbacks for one check
    for call in _find_calls(jaxpr):
        largest[call[:2]] = max(call, largest.get(call[:2], call))
    if not (calls := list(largest.values())):
        return
    described = ", ".join(f"{call}, whose operands of {format_bytes(call.bytes)} one device would gather" for call in calls[:_MOST_NAMED])
    more = f", and {len(calls) - _MOST_NAMED} more" if len(calls) > _MOST_NAMED else ""
    ways_out = [_WAYS_OUT[kind] for kind in dict.fromkeys(call.kind for call in calls)]
    raise TraceError(f"`{name}` calls back to the host in every step: {described}{more}.", ways_out)


def _find_calls(jaxpr: Any) -> Iterator[_HostCall]:
    for eqn, around in equations_below(jaxpr):
        if (kind := _kind_of(eqn)) is not None:
            source = next(filter(None, map(source_line, (eqn, *reversed(around)))), "")
            yield _HostCall(kind, source, sum(size_of(atom.aval) for atom in eqn.invars))


def _kind_of(eqn: Any) -> str | None:
    primitive = eqn.primitive.name
    if primitive in _PRINTS:
        return "an ordered print" if eqn.params.get("ordered") else None
    if primitive not in _CALLS:
        return None
    function = getattr(eqn.params["callback"], "callback_func", None)
    return "eqx.error_if" if str(getattr(function, "__module__", "")).startswith(_EQUINOX) else primitive
