"""Operations that read the same value through the same windows: XLA makes what they read beyond their own parts once.

`PartitionedHlo::ReshardAsWindowedInput` (openxla/xla, `spmd_partitioner.cc`) keeps what it made of a value by its windows and the sharding,
and not by what stands in the padding. Seen of jaxlib 0.10.2: a maximum and a mean of the same 3 x 3 windows, along rows that are cut, pad
with -inf and with 0, and both read the padding of the first. What two such operations fetch is sent once. Convolutions are not among
them: each makes its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jax.extend.mlir import ir

from workbench.partition.context import producer
from workbench.partition.own_communication import Own, Placed
from workbench.partition.own_communication.slicing import PAD, SLICE
from workbench.partition.own_communication.windowed_reduction import WINDOWED_REDUCTION
from workbench.partition.own_communication.windows import Window

_MOVING = (PAD, SLICE)  # what they make of the same borders is the same value
_SHARING = (*_MOVING, WINDOWED_REDUCTION)


@dataclass(slots=True)
class SharedBorders:
    """`mistaken`: an operation whose padding is that of another, by operation: that other one, and the dimensions."""

    mistaken: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    _first: dict[tuple[Any, ...], tuple[int, ir.Operation]] = field(default_factory=dict)
    _same: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def are_there(self, op: ir.Operation, index: int, region: int, own: Own, placed: Placed) -> bool:
        """Whether an operation before this one made them."""
        if own.operator not in _SHARING or len(placed.results) > 1:
            return False
        image = placed.operands[0]
        key = (self._value(op.operands[0]), region, own.facts, image.dims, placed.results[0].dims)
        number, first = self._first.setdefault(key, (index, op))
        if first == op:
            return False
        if own.operator in _MOVING and first.name == op.name:
            self._same[op.results[0]] = self._value(first.results[0])
        padded = _padded(own.facts, image.dims)
        if padded and _fill(first) != _fill(op):
            self.mistaken[index] = number, padded
        return True

    def _value(self, value: ir.Value) -> ir.Value:
        return self._same.get(value, value)


def _padded(windows: Sequence[Window], dims: Sequence[tuple[str, ...]]) -> tuple[int, ...]:
    """The cut dimensions that windows reach beyond the ends of."""
    return tuple(dim for dim, (window, axes) in enumerate(zip(windows, dims, strict=True)) if axes and max(window.low, window.high) > 0)


def _fill(op: ir.Operation) -> object:
    """What stands in the padding, which is an operation's last operand; alike for numbers that are written alike."""
    return None if op.name in SLICE.kinds else _written(op.operands[len(op.operands) - 1])


def _written(value: ir.Value) -> object:
    owner = producer(value)
    if owner is None:
        return value
    number = str(owner.attributes["value"]) if "value" in owner.attributes else ""  # of a constant
    return owner.name, str(value.type), number, *map(_written, owner.operands)
