"""Operations that read windows along the dimensions of their first operand: slices, pads, windowed reductions,
convolutions.
"""

from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.propagation.module.mlir_context import producer, shape_of
from workbench.propagation.structure.operation_work import dimension_numbers, read_numbers, read_paddings


class DimWindow(NamedTuple):
    """The window along one dimension, in elements; `low` and `high` padding may be negative, like a slice's."""

    size: int = 1
    stride: int = 1
    low: int = 0
    high: int = 0
    dilation: int = 1
    base_dilation: int = 1

    @property
    def is_trivial(self) -> bool:
        return self == DimWindow()

    @property
    def reach(self) -> int:
        """Elements from the first to the last of a window, both included."""
        return 1 + (self.size - 1) * self.dilation

    def count(self, size: int) -> int:
        return (1 + (size - 1) * self.base_dilation + self.low + self.high - self.reach) // self.stride + 1


class OperandAccess(NamedTuple):
    """The elements of its first operand that an operation reads, whatever the layout.

    - `dims`: the window along each dimension;
    - `kernel_dims`: for a convolution, the kernel dimension for each image dimension; `None` for the batch;
    - `dropped`: for a reshape, the dimensions of size 1;
    - `fill`: the padding value as text (equal texts are equal numbers), or empty.
    """

    dims: tuple[DimWindow, ...] = ()
    kernel_dims: tuple[int | None, ...] = ()
    dropped: tuple[int, ...] = ()
    fill: str = ""


def windows_of(op: ir.Operation) -> OperandAccess | None:
    """The windows of an operation; `None` for other kinds, and if every window is one element in its place."""
    match op.name:
        case "stablehlo.slice":
            access = OperandAccess(_slice_windows(op))
        case "stablehlo.pad":
            columns = (read_numbers(op, name, 0, 0) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
            dims = tuple(DimWindow(low=low, high=high, base_dilation=interior + 1) for low, high, interior in zip(*columns, strict=True))
            access = OperandAccess(dims, fill=_scalar_text(op.operands[1]))
        case "stablehlo.reduce_window" if len(op.results) == 1:
            dims = _read_windows(op, read_numbers(op, "window_dimensions", 0, 0), "window_dilations", "base_dilations")
            access = OperandAccess(dims, fill=_scalar_text(op.operands[1]))
        case "stablehlo.select_and_scatter":
            access = OperandAccess(_read_windows(op, read_numbers(op, "window_dimensions", 0, 0), "window_dilations", "base_dilations"))
        case "stablehlo.convolution":
            access = _convolution_windows(op)
        case "stablehlo.reshape":
            return (
                OperandAccess(dropped=dropped)
                if (dropped := tuple(i for i, size in enumerate(shape_of(op.operands[0])) if size == 1))
                else None
            )
        case _:
            return None
    return None if all(window.is_trivial for window in access.dims) else access


def _slice_windows(op: ir.Operation) -> tuple[DimWindow, ...]:
    columns = (read_numbers(op, name, 0, 0) for name in ("start_indices", "limit_indices", "strides"))
    rows = zip(shape_of(op.operands[0]), *columns, strict=True)
    return tuple(DimWindow(stride=stride, low=-start, high=limit - size) for size, start, limit, stride in rows)


def _convolution_windows(op: ir.Operation) -> OperandAccess:
    image, kernel, _ = dimension_numbers(op)
    kernel_word = {word: "i" if word == "f" else word for word in image if word != "b"}
    sizes = shape_of(op.operands[1])
    at = tuple(kernel.index(kernel_word[word]) if word in kernel_word else None for word in image)
    spatial = [kernel.index(str(number)) for number in range(len(image) - 2)]
    windows = _read_windows(op, tuple(sizes[dim] for dim in spatial), "rhs_dilation", "lhs_dilation")
    return OperandAccess(tuple(windows[int(word)] if word.isdigit() else DimWindow() for word in image), at)


def _read_windows(op: ir.Operation, sizes: tuple[int, ...], dilation: str, base_dilation: str) -> tuple[DimWindow, ...]:
    rank = len(sizes)
    strides, dilations, bases = (read_numbers(op, name, 1, rank) for name in ("window_strides", dilation, base_dilation))
    rows = zip(sizes, strides, read_paddings(op, rank), dilations, bases, strict=True)
    return tuple(DimWindow(size, stride, low, high, window_dilation, base) for size, stride, (low, high), window_dilation, base in rows)


def _scalar_text(value: ir.Value) -> str:
    owner = producer(value)
    if owner is None:
        return str(value)
    if owner.name == "stablehlo.broadcast_in_dim":  # of a scalar to a scalar
        return _scalar_text(owner.operands[0])
    # The constant as printed, because jaxlib cannot read complex attributes. A copy outside the module: MLIR numbers the values of the
    # whole module each time it prints one of its operations.
    number = str(owner.clone(False)).partition(" = ")[2] if "value" in owner.attributes else ""
    return f"{owner.name} {value.type} {number} ({', '.join(map(_scalar_text, owner.operands))})"
