"""The dimensions of a dot or a convolution by kind, as XLA's partitioner classifies them (`dot_as_convolution_util.cc`)."""

from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.propagation.structure.operation_work import dimension_numbers

LEFT, RIGHT, RESULT = 0, 1, 2


class DotDim(NamedTuple):
    """A dimension of a dot: its index in the left operand, the right one and the result, -1 where it does not occur."""

    left: int
    right: int
    result: int


class DotDims(NamedTuple):
    """The dimensions of a dot by kind; `spatial` are those that a convolution's windows move along."""

    batch: tuple[DotDim, ...]
    summed: tuple[DotDim, ...]
    rows: tuple[DotDim, ...]  # of the left operand and the result
    columns: tuple[DotDim, ...]  # of the right operand and the result
    spatial: tuple[DotDim, ...] = ()


def read_dot_dims(op: ir.Operation) -> DotDims | None:
    """The dimensions of a dot, or of a convolution whose channels are convolved together; `None` of anything else."""
    if op.name == "stablehlo.dot_general":
        return _read_dot(op)
    return _read_convolution(op) if op.name == "stablehlo.convolution" else None


def _read_dot(op: ir.Operation) -> DotDims:
    """A dot's dimensions: its result has the batch first, then the rows, then the columns."""
    text = str(op.attributes["dot_dimension_numbers"])
    batch, summed = ([_read_dims(text, f"{side}_{name}_dimensions") for side in ("lhs", "rhs")] for name in ("batching", "contracting"))
    free_dims = [
        [dim for dim in range(ir.RankedTensorType(value.type).rank) if dim not in batch[side] and dim not in summed[side]]
        for side, value in enumerate(op.operands)
    ]
    first = len(batch[0])
    return DotDims(
        tuple(DotDim(left, right, position) for position, (left, right) in enumerate(zip(*batch, strict=True))),
        tuple(DotDim(left, right, -1) for left, right in zip(*summed, strict=True)),
        tuple(DotDim(dim, -1, first + position) for position, dim in enumerate(free_dims[0])),
        tuple(DotDim(-1, dim, first + len(free_dims[0]) + position) for position, dim in enumerate(free_dims[1])),
    )


def _read_dims(text: str, name: str) -> list[int]:
    inside = text.partition(f"{name} = [")[2].partition("]")[0]
    return [int(word) for word in inside.split(",") if word.strip()]


def _read_convolution(op: ir.Operation) -> DotDims | None:
    """Of a convolution's spatial dimensions, one of a single element is a batch; one as long as its window is summed; one that a window of
    one element moves over is rows. Any other is a window."""
    if any(ir.IntegerAttr(op.attributes[name]).value > 1 for name in ("feature_group_count", "batch_group_count")):
        return None
    image, kernel, result = dimension_numbers(op)
    summed = [DotDim(image.index("f"), kernel.index("i"), -1)]
    rows, batch, spatial = [DotDim(image.index("b"), -1, result.index("b"))], [], []
    sizes = [tuple(ir.RankedTensorType(value.type).shape) for value in op.operands]
    windows = _read_windows(op, sum(word.isdigit() for word in image))
    for number, (stride, low, high, base, dilation, is_reversed) in enumerate(windows):
        found = DotDim(image.index(str(number)), kernel.index(str(number)), result.index(str(number)))
        size, window = sizes[0][found.left], sizes[1][found.right]
        is_plain = base == dilation == 1 and low == high == 0 and not is_reversed
        if is_plain and window == size == stride == 1:
            batch.append(found)
        elif is_plain and window == size:
            summed.append(found)
        elif is_plain and window == stride == 1:
            rows.append(found)
        else:
            spatial.append(found)
    return DotDims(tuple(batch), tuple(summed), tuple(rows), (DotDim(-1, kernel.index("o"), result.index("f")),), tuple(spatial))


def _read_windows(op: ir.Operation, rank: int) -> list[tuple[int, ...]]:
    """Stride, low and high padding, base and window dilation, and whether it is reversed, of each spatial dimension."""

    def numbers(name: str, default: int) -> list[int]:
        return [int(each) for each in ir.DenseI64ArrayAttr(op.attributes[name])] if name in op.attributes else [default] * rank

    padding = [int(each) for each in ir.DenseIntElementsAttr(op.attributes["padding"])] if "padding" in op.attributes else [0] * 2 * rank
    if len(padding) == 1:  # printed once where all are equal
        padding *= 2 * rank
    is_reversed_flags = (
        [bool(each) for each in ir.DenseBoolArrayAttr(op.attributes["window_reversal"])] if "window_reversal" in op.attributes else []
    )
    columns = (
        *(numbers("window_strides", 1), padding[::2], padding[1::2]),
        *(numbers("lhs_dilation", 1), numbers("rhs_dilation", 1), is_reversed_flags or [False] * rank),
    )
    return list(zip(*columns, strict=True))
