"""A check that a program's bytes can be counted: they are whole numbers of 64 bits, here and in XLA."""

from collections.abc import Iterator
from typing import Any

from jax.extend import core as jex_core

from workbench.errors import TraceError
from workbench.tracing.jaxpr.equations import size_of
from workbench.units import format_bytes

MOST_BYTES = 1 << 60
"""Bytes of one value; all values of a step together may have eight times as much, the end of signed 64 bits."""


def verify_byte_counts(jaxpr: Any, name: str) -> None:
    """Raises `TraceError` for a value, or for all values together, whose bytes do not fit into 64 bits."""
    total = 0
    for aval in _values(jaxpr):
        total += size_of(aval)
        if size_of(aval) > MOST_BYTES:
            shape = " x ".join(f"{size:,}" for size in aval.shape)
            raise TraceError(
                f"`{name}` makes a value of {shape} {aval.dtype}, which is more than {format_bytes(MOST_BYTES)}: more are not counted.",
                ["make a dimension smaller"],
            )
    if total >= 8 * MOST_BYTES:
        raise TraceError(
            f"The values that `{name}` makes are {format_bytes(total)} together; bytes are counted up to {format_bytes(8 * MOST_BYTES)}.",
            ["make a dimension smaller"],
        )


def _values(jaxpr: Any) -> Iterator[Any]:
    """Every argument and result that is an array of known shape; those of a loop's body once."""
    made = [*jaxpr.invars, *(var for eqn in jaxpr.eqns for var in eqn.outvars)]
    yield from (var.aval for var in made if _is_array(var.aval))
    for eqn in jaxpr.eqns:
        for inner in jex_core.jaxprs_in_params(eqn.params):
            yield from _values(inner)


def _is_array(aval: Any) -> bool:
    return hasattr(aval, "dtype") and all(isinstance(size, int) for size in getattr(aval, "shape", (None,)))
