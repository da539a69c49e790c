"""Loops (`scan`) that sum gradients up as they go, or stack one for each iteration: as partial sums.

A carried value that starts from zeros or a partial sum, and that every iteration makes a partial sum of, is one.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core

from workbench.tracing.jaxpr.equations import scan_widths


class PartialSumResults(NamedTuple):
    """A jaxpr `closed(*wholes, *partials) -> (*wholes, *partials)`.

    `wholes` and `partials` number the arguments of the jaxpr it comes from that it reads, whole and as partial sums.
    """

    closed: Any
    wholes: tuple[int, ...]
    partials: tuple[int, ...]


class SplitBody(Protocol):
    """A loop's body, some of whose results can be had as partial sums (`PartialSumJaxpr`)."""

    @property
    def given(self) -> frozenset[int]: ...

    @property
    def partial_results(self) -> frozenset[int]: ...

    def rewrite(self, wholes: Sequence[int], partials: Sequence[int]) -> PartialSumResults: ...


Body = TypeVar("Body", bound=SplitBody)


class SummedScan(NamedTuple):
    """A loop some of whose values are partial sums: `wholes` and `partials` number its results, and its operands are numbered by `body`."""

    body: PartialSumResults
    wholes: tuple[int, ...]
    partials: tuple[int, ...]


def split_scan(eqn: Any, given: frozenset[int], zeros: frozenset[int], split: Callable[[frozenset[int]], Body]) -> Body:
    """The body of a loop with as many carried values as possible as partial sums.

    `given` and `zeros` number the operands that are partial sums and zeros; `split` takes the numbers of the body's arguments that are
    partial sums.
    """
    fixed, width = scan_widths(eqn)
    constants = frozenset(i for i in given if i < fixed)
    carried = frozenset(i for i in given | zeros if fixed <= i < fixed + width)
    while True:
        body = split(constants | carried)
        if (still := frozenset(i for i in carried if i - fixed in body.partial_results)) == carried:
            return body
        carried = still


def list_partial_results(eqn: Any, body: SplitBody) -> frozenset[int]:
    """The numbers of a loop's results that can be had as partial sums."""
    fixed, width = scan_widths(eqn)
    return frozenset(i for i in body.partial_results if i >= width or i + fixed in body.given)


def rewrite_scan(eqn: Any, wholes: Sequence[int], partials: Sequence[int], body: SplitBody) -> SummedScan:
    """The loop with these results; what an iteration reads of the one before is among its results, too."""
    fixed, width = scan_widths(eqn)
    while True:
        found = body.rewrite(sorted(wholes), sorted(partials))
        more, more_partial = (
            sorted({*results, *(i - fixed for i in read if fixed <= i < fixed + width)})
            for results, read in ((wholes, found.wholes), (partials, found.partials))
        )
        if (more, more_partial) == (sorted(wholes), sorted(partials)):
            return SummedScan(found, tuple(more), tuple(more_partial))
        wholes, partials = more, more_partial


def run_scan(eqn: Any, scan: SummedScan, count: int, whole: dict[int, Any], partial: dict[int, Any]) -> list[Any]:
    """The loop's results in the order of `scan`, from its operands by number; what carries partial sums from no operand starts at zero."""
    fixed, width = scan_widths(eqn)
    carried = [i + fixed for i in scan.wholes if i < width], [i + fixed for i in scan.partials if i < width]
    stacked = [i for i in scan.body.wholes if i >= fixed + width]
    body = jex_core.jaxpr_as_fun(scan.body.closed)

    def step(carry: Any, slices: Sequence[Any]) -> Any:
        values = whole | dict(zip(stacked, slices, strict=True)) | dict(zip(carried[0], carry[0], strict=True))
        parts = partial | dict(zip(carried[1], carry[1], strict=True))
        results = body(*(values[i] for i in scan.body.wholes), *(parts[i] for i in scan.body.partials))
        first, second = results[: len(scan.wholes)], results[len(scan.wholes) :]
        carry = first[: len(carried[0])], second[: len(carried[1])]
        return carry, (first[len(carried[0]) :], second[len(carried[1]) :])

    zeros = {i: jnp.zeros((count, *eqn.invars[i].aval.shape), eqn.invars[i].aval.dtype) for i in carried[1] if i not in partial}
    start = [whole[i] for i in carried[0]], [(partial | zeros)[i] for i in carried[1]]
    settings = {name: eqn.params[name] for name in ("length", "reverse", "unroll")}
    (wholes, partials), (rows, partial_rows) = jax.lax.scan(step, start, [whole[i] for i in stacked], **settings)
    return [*chain(wholes, rows, partials), *(jnp.moveaxis(each, 1, 0) for each in partial_rows)]
