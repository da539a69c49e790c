"""For which platform a traced function is lowered: that of the plan's hardware where JAX lowers one of its primitives differently."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from workbench.tracing.host_calls import refuse_host_calls
from workbench.tracing.jaxpr.equations import equations_below

_PLATFORM = ContextVar("platform", default="cpu")
# Of these JAX makes calls of LAPACK, of cuSOLVER, or loops of products. All else is lowered alike, or as plainly for TPUs.
_BY_PLATFORM = {"approx_top_k", "cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu"} | {
    *("lu_pivots_to_permutation", "ormqr", "qr", "schur", "svd", "sylvester", "symmetric_product", "triangular_solve"),
    *("tridiagonal", "tridiagonal_solve"),
}
_MISSING = re.compile(r"primitive '(\w+)' not found for platform")


class Lowered(NamedTuple):
    """StableHLO, and the platform it is for, empty where it is the same for all; `missing` is a primitive that platform has not."""

    module: Any
    platform: str
    missing: str = ""


@contextmanager
def lowering_for(platform: str) -> Iterator[None]:
    """What is traced in the block is lowered for `platform`: `cpu`, `cuda`, `tpu`."""
    token = _PLATFORM.set(platform)
    try:
        yield
    finally:
        _PLATFORM.reset(token)


def lower(traced: Any, name: str) -> Lowered:
    """StableHLO for the platform of the block; for TPUs, the plainest there is, where that makes no difference.

    What prints from the device (a `jax.debug.print`) can only be lowered for the backend at hand.
    """
    refuse_host_calls(traced.jaxpr.jaxpr, name)
    primitives = (eqn.primitive.name for eqn, _ in equations_below(traced.jaxpr.jaxpr))
    platform = "" if _BY_PLATFORM.isdisjoint(primitives) else _PLATFORM.get()
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
