"""Lowers a traced function for the platform of the plan's hardware, where JAX lowers a primitive differently per
platform.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from workbench.tracing.host_calls import verify_no_host_calls
from workbench.tracing.jaxpr.equations import equations_below

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
