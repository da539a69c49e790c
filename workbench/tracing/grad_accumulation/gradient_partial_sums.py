"""Gradients of a micro-batch as partial sums, one for each data-parallel part of it. Devices that share the micro-batches of a step sum
their own parts of a gradient, and sum over each other once, at the step's end, instead of once for every micro-batch.

The gradient of a weight ends in an operation that sums over the batch (a product, a sum, a scatter), and whatever follows is linear in
that sum. So the operation is done on each part alone, and what follows on each partial sum. This is exact for any network, batch
normalisation too, for nothing before is touched; what ends in another way (a convolution) is left as it is.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
from jax.extend import core as jex_core

from workbench.tracing.jaxpr.equations import closed_jaxpr, select_needed
from workbench.tracing.jaxpr.inline_jaxpr import inline
from workbench.tracing.stage_partition.stage_tasks import TracedStageTask

_SHAPE_OPS = ("transpose", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "slice", "split", "unstack", "reduce_sum")
_LINEAR_OPS = ("neg", "convert_element_type", "copy", *_SHAPE_OPS)
_SUM_OPERANDS = {**dict.fromkeys(_LINEAR_OPS, (0,)), "mul": (0, 1), "div": (0,)}  # which operand may be
_ADDITION_OPS = ("add", "add_any", "sub", "concatenate")  # where every operand is


@dataclass(frozen=True)
class DataParallelGroups:
    """The data-parallel groups of a stage: a micro-batch is in `count` parts, along mesh axes `axes`; `param_slices` are the numbers of the
    network's parameter slices that every part has whole."""

    axes: tuple[str, ...] = ()
    count: int = 1
    param_slices: frozenset[int] = frozenset()


NO_GROUPS = DataParallelGroups()


def split_gradients(task: TracedStageTask, count: int, batch: int, places: Collection[int]) -> tuple[TracedStageTask, frozenset[int]]:
    """The task with gradients of these `places` as `count` partial sums along a new first dimension, and of which places it has them so.

    `batch` is the size of the micro-batch: the dimension summed over is as large, or comes first and is a multiple of it.
    """
    gradients = {i: position for i, (group, position) in enumerate(task.gives) if group == "gradient" and position in places}
    if count < 2 or not batch or batch % count or not gradients:
        return task, frozenset()
    closed = jax.make_jaxpr(task.call)(*task.specs)
    eqns, constants, outvars = inline(closed)
    splitter = _GradientSplitter(closed.jaxpr, {var: eqn for eqn in eqns for var in eqn.outvars}, count, batch)
    sums = {i: found for i in gradients if (found := splitter.split(outvars[i])) is not None}
    read = list(dict.fromkeys(var for each in sums.values() for var in each.read))
    others = [var for i, var in enumerate(outvars) if i not in sums]
    whole = closed_jaxpr(closed.jaxpr, constants, closed.jaxpr.invars, select_needed(eqns, [*others, *read]), [*others, *read])

    def call(*values: Any) -> tuple[Any, ...]:
        found = jex_core.jaxpr_as_fun(whole)(*values)
        known, rest = dict(zip(read, found[len(others) :], strict=True)), iter(found[: len(others)])
        return tuple(sums[i].make(known) if i in sums else next(rest) for i in range(len(outvars)))

    return replace(task, call=call), frozenset(gradients[i] for i in sums)


class _Operand(NamedTuple):
    """An operand of an operation done part by part: partial sums along dimension `dim`, or a whole value where that is `None`. It is made
    from the values of the variables `read`."""

    read: tuple[Any, ...]
    make: Callable[[Mapping[Any, Any]], Any]
    dim: int | None = 0


@dataclass(frozen=True)
class _GradientSplitter:
    """`made`: the equation that makes each variable of `jaxpr`."""

    jaxpr: Any
    made: Mapping[Any, Any]
    count: int
    batch: int

    def split(self, atom: Any) -> _Operand | None:
        """A variable as partial sums; `None` where it is no sum over the batch."""
        eqn = self._find_maker(atom)
        operands = None if eqn is None else self._split_operands(eqn)
        if eqn is None or operands is None:
            return None
        read, index = tuple(var for each in operands for var in each.read), eqn.outvars.index(atom)
        return _Operand(read, lambda values: self._apply_to_parts(eqn, operands, [each.make(values) for each in operands])[index])

    def _find_maker(self, atom: Any) -> Any:
        return None if isinstance(atom, jex_core.Literal) else self.made.get(atom)

    def _split_operands(self, eqn: Any) -> list[_Operand] | None:
        """The operands of an equation that is done part by part, if it can be."""
        name = eqn.primitive.name
        if (dims := self._find_summed_dims(eqn)) is not None:
            return [self._slice_operand(each, dim) for each, dim in zip(eqn.invars, dims, strict=True)]
        if name in _ADDITION_OPS:
            terms = [self.split(each) for each in eqn.invars]
            return [each for each in terms if each is not None] if None not in terms else None
        for index in (0,) if _pads_with_zeros(eqn) else _SUM_OPERANDS.get(name, ()):
            if (inner := self.split(eqn.invars[index])) is not None:
                return [inner if i == index else self._slice_operand(each, None) for i, each in enumerate(eqn.invars)]
        return None

    def _find_summed_dims(self, eqn: Any) -> Sequence[int | None] | None:
        """For each operand the dimension along which the batch is summed over, `None` for one without; `None` if it is not summed."""
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
        """As `_find_summed_dims`, for a scatter that adds rows to zeros: the gradient of an embedding lookup."""
        table, indices, updates = eqn.invars
        numbers, maker = eqn.params["dimension_numbers"], self._find_maker(table)
        is_empty = maker is not None and maker.primitive.name == "broadcast_in_dim" and getattr(maker.invars[0], "val", None) == 0
        if not is_empty or numbers.operand_batching_dims or indices.aval.ndim < 2 or not self._is_batch(indices, 0):
            return None
        return (None, 0, next(dim for dim in range(updates.aval.ndim) if dim not in numbers.update_window_dims))

    def _is_batch(self, atom: Any, dim: int) -> bool:
        size = atom.aval.shape[dim]
        return size == self.batch or (dim == 0 and size > 0 and size % self.batch == 0)

    def _slice_operand(self, atom: Any, dim: int | None) -> _Operand:
        """A whole value, in parts along a dimension if one is given."""

        def make(values: Mapping[Any, Any]) -> Any:
            value = values[atom]
            if dim is None:
                return value
            before, after = value.shape[:dim], value.shape[dim + 1 :]
            return value.reshape((*before, self.count, value.shape[dim] // self.count, *after))

        if isinstance(atom, jex_core.Literal):
            return _Operand((), lambda _: atom.val, None)
        return _Operand((atom,), make, dim)

    def _apply_to_parts(self, eqn: Any, operands: Sequence[_Operand], values: Sequence[Any]) -> Sequence[Any]:
        """The results of one equation, under its own name."""
        invars = [each if isinstance(each, jex_core.Literal) else jex_core.Var(each.aval) for each in eqn.invars]
        arguments = [i for i, each in enumerate(invars) if not isinstance(each, jex_core.Literal)]
        alone = closed_jaxpr(self.jaxpr, {}, [invars[i] for i in arguments], [eqn.replace(invars=invars)], eqn.outvars)
        results: Sequence[Any] = jax.vmap(jex_core.jaxpr_as_fun(alone), [operands[i].dim for i in arguments])(
            *(values[i] for i in arguments)
        )
        return results


def _pads_with_zeros(eqn: Any) -> bool:
    return eqn.primitive.name == "pad" and getattr(eqn.invars[1], "val", None) == 0
