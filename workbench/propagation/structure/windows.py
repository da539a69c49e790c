"""Operations that read through windows, along each dimension of their first operand: slices, pads, windowed reductions, convolutions."""

from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.propagation.module.mlir_context import producer, shape_of
from workbench.propagation.structure.operation_work import dimension_numbers, read_numbers, read_paddings


class DimWindow(NamedTuple):
    """The window along one dimension, in elements; `low` and `high` padding may be negative, as a slice's is."""

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
        """Elements from the first one of a window to behind its last."""
        return 1 + (self.size - 1) * self.dilation

    def count(self, size: int) -> int:
        """Windows along a dimension of `size` elements."""
        return (1 + (size - 1) * self.base_dilation + self.low + self.high - self.reach) // self.stride + 1


class OperandAccess(NamedTuple):
    """What an operation reads of its first operand, whatever the layout.

    - `dims`: the window along each dimension;
    - `kernel_dims`: for a convolution, the dimension of the kernel that each of the image is summed with; `None` for the batch;
    - `dropped`: for a reshape, the dimensions of one element;
    - `fill`: the value in the padding, as text: equal texts are equal numbers; empty where there is none.
    """

    dims: tuple[DimWindow, ...] = ()
    kernel_dims: tuple[int | None, ...] = ()
    dropped: tuple[int, ...] = ()
    fill: str = ""


def windows_of(op: ir.Operation) -> OperandAccess | None:
    """The windows of an operation; `None` for other kinds, and where every window is one element, in its place."""
    match op.name:
        case "stablehlo.slice":
            found = OperandAccess(_slice_windows(op))
        case "stablehlo.pad":
            columns = (read_numbers(op, name, 0, 0) for name in ("edge_padding_low", "edge_padding_high", "interior_padding"))
            dims = tuple(DimWindow(low=low, high=high, base_dilation=interior + 1) for low, high, interior in zip(*columns, strict=True))
            found = OperandAccess(dims, fill=_scalar_text(op.operands[1]))
        case "stablehlo.reduce_window" if len(op.results) == 1:
            dims = _read_windows(op, read_numbers(op, "window_dimensions", 0, 0), "window_dilations", "base_dilations")
            found = OperandAccess(dims, fill=_scalar_text(op.operands[1]))
        case "stablehlo.convolution":
            found = _convolution_windows(op)
        case "stablehlo.reshape":
            return (
                OperandAccess(dropped=dropped)
                if (dropped := tuple(i for i, size in enumerate(shape_of(op.operands[0])) if size == 1))
                else None
            )
        case _:
            return None
    return None if all(each.is_trivial for each in found.dims) else found


def _slice_windows(op: ir.Operation) -> tuple[DimWindow, ...]:
    columns = (read_numbers(op, name, 0, 0) for name in ("start_indices", "limit_indices", "strides"))
    rows = zip(shape_of(op.operands[0]), *columns, strict=True)
    return tuple(DimWindow(stride=stride, low=-start, high=limit - size) for size, start, limit, stride in rows)


def _convolution_windows(op: ir.Operation) -> OperandAccess:
    """Trivial windows along batch and features."""
    image, kernel, _ = dimension_numbers(op)
    alike = {word: "i" if word == "f" else word for word in image if word != "b"}
    sizes = shape_of(op.operands[1])
    at = tuple(kernel.index(alike[word]) if word in alike else None for word in image)
    spatial = [kernel.index(str(number)) for number in range(len(image) - 2)]
    windows = _read_windows(op, tuple(sizes[dim] for dim in spatial), "rhs_dilation", "lhs_dilation")
    return OperandAccess(tuple(windows[int(word)] if word.isdigit() else DimWindow() for word in image), at)


def _read_windows(op: ir.Operation, sizes: tuple[int, ...], dilation: str, base_dilation: str) -> tuple[DimWindow, ...]:
    rank = len(sizes)
    strides, dilations, bases = (read_numbers(op, name, 1, rank) for name in ("window_strides", dilation, base_dilation))
    rows = zip(sizes, strides, read_paddings(op, rank), dilations, bases, strict=True)
    return tuple(DimWindow(size, stride, low, high, each, base) for size, stride, (low, high), each, base in rows)


def _scalar_text(value: ir.Value) -> str:
    """A scalar, as it is made."""
    owner = producer(value)
    if owner is None:
        return str(value)
    # Of a constant; as it is printed, for jaxlib reads no attribute of complex numbers.
    number = str(owner).partition(" = ")[2] if "value" in owner.attributes else ""
    return f"{owner.name} {value.type} {number} ({', '.join(map(_scalar_text, owner.operands))})"
