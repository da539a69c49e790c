"""Rules for equations that produce partial sums, one for each data-parallel shard of a micro-batch.

An equation that sums over the batch (a product, a sum, a scatter) gives one from each shard of its operands; one that
is linear in partial sums gives partial sums again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core

from workbench.tracing.jaxpr.equations import closed_jaxpr, scan_widths

_SHAPE_OPS = ("transpose", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "slice", "split", "unstack", "rev", "reduce_sum")
_LINEAR_OPS = ("neg", "convert_element_type", "reduce_precision", "copy", *_SHAPE_OPS)
_SUM_OPERANDS = {**dict.fromkeys(_LINEAR_OPS, (0,)), "mul": (0, 1), "dot_general": (0, 1), "div": (0,)}  # the operand that may be partial
_ADDITION_OPS = ("add", "add_any", "sub", "concatenate")  # all operands must be partial


class SummedOperand(NamedTuple):
    """An operand of an equation that is done shard by shard: whole, split along dimension `dim`, or a partial sum."""

    atom: Any
    dim: int | None = None
    is_partial: bool = False


@dataclass(frozen=True)
class SummingRules:
    """The rules for micro-batches of `batch` examples in `count` shards; `made`: the equation that makes each variable."""

    count: int
    batch: int
    made: Mapping[Any, Any]

    def find_operands(self, eqn: Any, partial: Collection[Any]) -> list[SummedOperand] | None:
        """The operands of an equation that can be done shard by shard, else `None`; `partial`: the partial sums so far."""
        if (dims := self._find_summed_dims(eqn)) is not None:
            return [SummedOperand(atom, dim) for atom, dim in zip(eqn.invars, dims, strict=True)]
        is_partial = [not isinstance(atom, jex_core.Literal) and atom in partial for atom in eqn.invars]
        if eqn.primitive.name in _ADDITION_OPS:
            return [SummedOperand(atom, is_partial=True) for atom in eqn.invars] if all(is_partial) else None
        index = next((i for i in self._list_linear_operands(eqn) if is_partial[i]), None)
        return None if index is None else [SummedOperand(atom, is_partial=i == index) for i, atom in enumerate(eqn.invars)]

    def list_zeros(self, eqn: Any) -> frozenset[int]:
        return frozenset(i for i, atom in enumerate(eqn.invars) if jnp.issubdtype(atom.aval.dtype, jnp.inexact) and self._is_zeros(atom))

    def _list_linear_operands(self, eqn: Any) -> Sequence[int]:
        """The operands in each of which alone an equation is linear."""
        match eqn.primitive.name:
            case "pad":
                return (0,) if _is_zero(eqn.invars[1]) else ()
            case "scatter-add":
                return (2,) if self._is_zeros(eqn.invars[0]) else ()
            case "dynamic_update_slice":
                return (1,) if self._is_zeros(eqn.invars[0]) else ()
            case "select_n":
                zeros = [self._is_zeros(atom) for atom in eqn.invars]
                return [i for i in range(1, len(zeros)) if all(zeros[1:i]) and all(zeros[i + 1 :])]
            case name:
                return _SUM_OPERANDS.get(name, ())

    def _find_summed_dims(self, eqn: Any) -> Sequence[int | None] | None:
        """The batch dimension of each operand, `None` for an operand without; `None` if the batch is not summed over."""
        match eqn.primitive.name:
            case "dot_general":
                (left, right), _ = eqn.params["dimension_numbers"]
                pairs = sorted(zip(left, right, strict=True))
                return next((pair for pair in pairs if all(map(self._is_batch, eqn.invars, pair))), None)
            case "reduce_sum":
                return next(((dim,) for dim in sorted(eqn.params["axes"]) if self._is_batch(eqn.invars[0], dim)), None)
            case "scatter-add":
                return self._find_scattered_dims(eqn)
        return None

    def _find_scattered_dims(self, eqn: Any) -> Sequence[int | None] | None:
        """`_find_summed_dims` for a scatter that adds rows to zeros, the gradient of an embedding lookup."""
        table, indices, updates = eqn.invars
        numbers = eqn.params["dimension_numbers"]
        if not self._is_zeros(table) or numbers.operand_batching_dims or indices.aval.ndim < 2 or not self._is_batch(indices, 0):
            return None
        return (None, 0, next(dim for dim in range(updates.aval.ndim) if dim not in numbers.update_window_dims))

    def _is_zeros(self, atom: Any) -> bool:
        if isinstance(atom, jex_core.Literal):
            return _is_zero(atom)
        maker = self.made.get(atom)
        return maker is not None and maker.primitive.name == "broadcast_in_dim" and _is_zero(maker.invars[0])

    def _is_batch(self, atom: Any, dim: int) -> bool:
        size = atom.aval.shape[dim]
        return size == self.batch or (dim == 0 and size > 0 and size % self.batch == 0)

    def apply(self, base: Any, eqn: Any, operands: Sequence[SummedOperand], values: Sequence[Any]) -> Sequence[Any]:
        """The results of one equation of the jaxpr `base` as partial sums; `values` are those of its variable operands."""
        variable_operands = [item for item in operands if not isinstance(item.atom, jex_core.Literal)]
        invars = [item if isinstance(item, jex_core.Literal) else jex_core.Var(item.aval) for item in eqn.invars]
        arguments = [item for item in invars if not isinstance(item, jex_core.Literal)]
        single = closed_jaxpr(base, {}, arguments, [eqn.replace(invars=invars)], eqn.outvars)
        parts = [value if item.dim is None else self._cut(value, item.dim) for item, value in zip(variable_operands, values, strict=True)]
        dims = [0 if item.is_partial else item.dim for item in variable_operands]
        results: Sequence[Any] = jax.vmap(jex_core.jaxpr_as_fun(single), dims)(*parts)
        return results

    def _cut(self, value: Any, dim: int) -> Any:
        before, after = value.shape[:dim], value.shape[dim + 1 :]
        return value.reshape((*before, self.count, value.shape[dim] // self.count, *after))


def _is_zero(atom: Any) -> bool:
    return getattr(atom, "val", None) is not None and jnp.ndim(atom.val) == 0 and bool(atom.val == 0)


# Loops (`scan`) that accumulate gradients, or stack one per iteration, as partial sums.
#
# A carried value is a partial sum if it starts from zeros or a partial sum and every iteration returns one.


class PartialSumResults(NamedTuple):
    """A jaxpr `closed(*wholes, *partials) -> (*wholes, *partials)`.

    `wholes` and `partials` number the arguments of the original jaxpr that it reads, whole and as partial sums.
    """

    closed: Any
    wholes: tuple[int, ...]
    partials: tuple[int, ...]


class SplitBody(Protocol):
    """A loop's body, some of whose results can be partial sums (`PartialSumJaxpr`)."""

    @property
    def given(self) -> frozenset[int]: ...

    @property
    def partial_results(self) -> frozenset[int]: ...

    def rewrite(self, wholes: Sequence[int], partials: Sequence[int]) -> PartialSumResults: ...


Body = TypeVar("Body", bound=SplitBody)


class SummedScan(NamedTuple):
    """A loop with partial sums: `wholes` and `partials` number its results; its operands are numbered by `body`."""

    body: PartialSumResults
    wholes: tuple[int, ...]
    partials: tuple[int, ...]


def split_scan(eqn: Any, given: frozenset[int], zeros: frozenset[int], split: Callable[[frozenset[int]], Body]) -> Body:
    """The body of a loop with as many carried values as possible as partial sums.

    `given` and `zeros` number the operands that are partial sums and zeros; `split` takes the body's partial-sum
    arguments by number.
    """
    fixed, width = scan_widths(eqn)
    constants = frozenset(i for i in given if i < fixed)
    carried = frozenset(i for i in given | zeros if fixed <= i < fixed + width)
    while True:
        body = split(constants | carried)
        if (remaining := frozenset(i for i in carried if i - fixed in body.partial_results)) == carried:
            return body
        carried = remaining


def list_partial_results(eqn: Any, body: SplitBody) -> frozenset[int]:
    """The numbers of a loop's results that can be partial sums."""
    fixed, width = scan_widths(eqn)
    return frozenset(i for i in body.partial_results if i >= width or i + fixed in body.given)


def rewrite_scan(eqn: Any, wholes: Sequence[int], partials: Sequence[int], body: SplitBody) -> SummedScan:
    """The loop with these results, extended by the carried values that an iteration reads."""
    fixed, width = scan_widths(eqn)
    while True:
        rewritten = body.rewrite(sorted(wholes), sorted(partials))
        all_wholes, all_partials = (
            sorted({*results, *(i - fixed for i in read if fixed <= i < fixed + width)})
            for results, read in ((wholes, rewritten.wholes), (partials, rewritten.partials))
        )
        if (all_wholes, all_partials) == (sorted(wholes), sorted(partials)):
            return SummedScan(rewritten, tuple(all_wholes), tuple(all_partials))
        wholes, partials = all_wholes, all_partials


def run_scan(eqn: Any, scan: SummedScan, count: int, whole: dict[int, Any], partial: dict[int, Any]) -> list[Any]:
    """The loop's results in the order of `scan`; carried partial sums without an operand start at zero."""
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
    return [*chain(wholes, rows, partials), *(jnp.moveaxis(stacked_sum, 1, 0) for stacked_sum in partial_rows)]
