"""Operations that read through windows: where the parts of the result read beyond their own part of the operand.

After XLA's `PartitionedHlo::ReshardAsWindowedInput` (openxla/xla, `spmd_partitioner.cc`), which convolutions, windowed reductions, slices
and pads share. In its letters, along one cut dimension: WC windows in all, wc = ceil(WC / parts) of them a part.

    first element part i reads    (i wc stride - low + base dilation - 1) / base dilation
    behind the last               that of its last window, and one

The difference to the borders of its own part is the halo. Windows that cannot be had so are taken from a gathered dimension.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workbench.partition.halo import Piece, exchange, toward_zero
from workbench.partition.own_communication.placed import Answer, Placed, Sent, Tensor, gathered, sized
from workbench.sharding import axis_size


class Window(NamedTuple):
    """The window along one dimension, in elements; `low` and `high` padding may be negative, as a slice's is."""

    size: int = 1
    stride: int = 1
    low: int = 0
    high: int = 0
    dilation: int = 1
    base_dilation: int = 1

    @property
    def is_trivial(self) -> bool:
        return self == Window()

    @property
    def reach(self) -> int:
        """From its first element behind its last."""
        return 1 + (self.size - 1) * self.dilation

    def count(self, size: int) -> int:
        """Windows along a dimension of `size` elements."""
        return (self.padded(size) - self.reach) // self.stride + 1

    def padded(self, size: int) -> int:
        return 1 + (size - 1) * self.base_dilation + self.low + self.high


class Cut(NamedTuple):
    """A windowed dimension that is cut: what the parts exchange, and how many elements each has after that."""

    pieces: tuple[Piece, ...]
    size: int


class GatherError(Exception):
    """XLA gathers the dimension: its parts reach too far for an exchange."""


class WholeError(Exception):
    """XLA has no partitioned form of such a window, and replicates the operation."""


class AbortError(Exception):
    """A check of XLA fails, and takes the process along."""


def windowed(windows: Sequence[Window], placed: Placed, operand: int = 0, *, narrow: bool = False) -> Answer:
    """What an operation with these windows over operand number `operand` sends, whose result is cut as that operand is.

    A halo of the second cut dimension is taken of the operand with the halo of the first. `narrow`: it is sent as two-byte floats.
    """
    tensor = placed.operands[operand]
    shape = list(tensor.local(placed.mesh))
    cut = [dim for dim, window in enumerate(windows) if tensor.dims[dim] and not window.is_trivial]
    found: list[Sent] = []
    try:
        exchanged = {dim: _cut(tensor.shape[dim], placed.parts(tensor.dims[dim]), windows[dim]) for dim in cut}
    except GatherError:
        read = sized(_read(windows, tensor, cut, placed), tensor.itemsize) if any(windows[dim].reach > 1 for dim in cut) else 0
        return Answer(gathered(placed, tensor._replace(stored=tensor.dims), cut, operand), beside=read)
    except WholeError:
        return whole(placed, operand)
    except AbortError as error:
        return Answer(aborts=str(error))
    for dim, each in exchanged.items():
        found += permutes(each.pieces, dim, shape, tensor, placed, operand, narrow=narrow)
        shape[dim] = each.size
    return Answer(tuple(found))


def _read(windows: Sequence[Window], tensor: Tensor, cut: Sequence[int], placed: Placed) -> tuple[int, ...]:
    """The part of a gathered operand that the windows of one device reach over, padding included."""
    shape = list(tensor.local(placed.mesh))
    for dim in cut:
        each = math.ceil(windows[dim].count(tensor.shape[dim]) / placed.parts(tensor.dims[dim]))
        shape[dim] = (each - 1) * windows[dim].stride + windows[dim].reach
    return tuple(shape)


def permutes(
    pieces: Sequence[Piece], dim: int, shape: Sequence[int], tensor: Tensor, placed: Placed, operand: int, *, narrow: bool = False
) -> Iterator[Sent]:
    """Pieces along `dim` of a part of this shape."""
    for piece in pieces:
        axes = crossed(piece, tensor.dims[dim], placed)
        if axes:
            payload = sized((*shape[:dim], piece.size, *shape[dim + 1 :]), tensor.itemsize)
            yield Sent("collective-permute", axes, payload // 2 if narrow and tensor.itemsize == 4 else payload, operand)


def crossed(piece: Piece, axes: Sequence[str], placed: Placed) -> tuple[str, ...]:
    """The mesh axes along which senders and receivers differ, where several axes cut one dimension."""
    found, minor = [], 1
    for axis in reversed(axes):
        size = axis_size(axis, placed.mesh)
        if any(source // minor % size != target // minor % size for source, target in piece.pairs):
            found.append(axis)
        minor *= size
    return tuple(reversed(found))


def whole(placed: Placed, *operands: int) -> Answer:
    """The operation is replicated: its operands are gathered, and each device keeps its part of the result (`DefaultAction`)."""
    tensors = ((number, placed.operands[number]) for number in operands)
    found = tuple(sent for number, each in tensors for sent in gathered(placed, each, range(len(each.shape)), number))
    return Answer(found, replaces=True, makes_whole=True)


@dataclass(slots=True)
class _Exchange:
    """The state of `ReshardAsWindowedInput` for one dimension."""

    count: int  # parts that have something to do
    part: int
    padding: int  # explicit padding on the left
    whole: int


def _cut(size: int, count: int, window: Window) -> Cut:
    """Raises `GatherError`, `WholeError`, `AbortError`."""
    windows = window.count(size)
    each = math.ceil(windows / count)
    if window.padded(size) < window.reach or (window.stride != 1 and window.stride * each % window.base_dilation):
        raise WholeError
    state = _Exchange(count, math.ceil(size / count), toward_zero(window.low, window.base_dilation), size)
    inner_low = window.low - state.padding * window.base_dilation
    if windows < count and window.dilation == window.base_dilation == 1:
        _trim_right(state, window, windows)
        if state.count == 1:
            return Cut((), state.part)
        _trim_middle(state, window.padded(size), windows)
    step, base = window.stride * each, window.base_dilation
    reach = window.stride * (each - 1) + window.reach
    if base > 1 and inner_low < 0:
        raise AbortError(f"negative padding ({window.low}) of a dilated operand ({base})")
    starts = [toward_zero(i * step + base - 1 - inner_low, base) for i in range(state.count)]
    limits = [toward_zero(i * step + reach + base - 1 - inner_low, base) for i in range(state.count)]
    left = [i * state.part + state.padding - start for i, start in enumerate(starts)]
    right = [limit - (i + 1) * state.part - state.padding for i, limit in enumerate(limits)]
    wanted = max(limit - start for start, limit in zip(starts, limits, strict=True))
    pieces = exchange(state.part, left, right, state.padding, wanted, state.whole)
    if pieces is None:
        raise GatherError
    return Cut(pieces, wanted)


def _trim_right(state: _Exchange, window: Window, windows: int) -> None:
    """Leave out the last parts that hold nothing of use."""
    useful = math.ceil((state.whole + window.high) / state.part)
    if useful >= state.count:
        return
    state.count = max(useful, windows)
    padded = window.padded(state.whole)
    if window.high < 0 and padded - window.low < state.part:
        state.part = padded - window.low
    state.whole = state.part * state.count


def _trim_middle(state: _Exchange, padded: int, windows: int) -> None:
    """Leave out parts before the first useful element that have no windows of their own."""
    empty = -state.padding // state.part - windows if state.padding < 0 else -windows
    if empty <= 0:
        return
    state.count -= empty
    state.padding += empty * state.part
    state.whole = state.part * state.count
    if -state.padding > state.part * (state.count - 1):
        skipped = -state.padding - state.part * (state.count - 1)
        state.part -= skipped
        state.padding += skipped * state.count
        if padded < state.part:
            state.padding += (state.part - padded) * (state.count - 1)
            state.part = padded
        state.whole = state.part * state.count
