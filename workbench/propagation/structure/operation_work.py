"""The work of one operation, read from its attributes: FLOP, contracted dimensions, shifted dimensions, and dimensions
by kind.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
from jax.extend.mlir import ir

from workbench.propagation.module.mlir_context import read_dims, shape_of

SPLITS_FFT_BATCHES = jax.__version_info__ >= (0, 12)
"""Whether XLA splits an FFT along its batch (`fft_handler.cc`); before, every device did all of it."""


class Convolution(NamedTuple):
    """Properties of a convolution beyond those of a dot.

    - `groups`: independent groups, each with its own channels and features;
    - `window`: sizes of the kernel's spatial dimensions; `features`, `places`: the result's feature and spatial
      dimensions;
    - `is_plain`: whether windows have stride and dilation 1, as Winograd's algorithm requires;
    - `misplaced`: the feature dimensions of image and kernel, if XLA misplaces the shards of groups
      (`_find_misplaced`).
    """

    groups: int
    window: tuple[int, ...]
    features: int
    places: tuple[int, ...]
    is_plain: bool
    misplaced: tuple[int, int] | None = None


class OperationWork(NamedTuple):
    """The arithmetic of an operation over the whole tensors.

    - `flops`: 2 x real multiply-adds; `contracted`: the summed dimensions of operand `contracted_of`;
      `contracted_right`: those of a dot's right operand;
    - `passes`: the number of dots that a systolic array makes of a convolution, each summing over the longest of the
      kernel's dimensions; 1 for the gradient of a kernel, whose windows are longer than its result;
    - `zeros`: elements that a convolution multiplies for one that is not a zero inserted by `lhs_dilation`;
    - `overlapping`: for the gradient of a max pooling, `(dimension, window size)` where a window covers two strides or
      more.
    """

    flops: int = 0
    contracted: tuple[int, ...] = ()
    contracted_of: int = 0
    contracted_right: tuple[int, ...] = ()
    passes: int = 1
    zeros: int = 1
    convolution: Convolution | None = None
    overlapping: tuple[tuple[int, int], ...] = ()


_MOVES = ("window_strides", "lhs_dilation", "rhs_dilation")
_ONE_SCATTERED = 3  # operands: array, indices, updates
_NOTHING = OperationWork()  # shared by most operations


def work_of(op: ir.Operation) -> OperationWork:
    """The work of a dot, a ragged dot, a convolution or the gradient of a max pooling; none for other operations."""
    if op.name == "stablehlo.dot_general":
        text = str(op.attributes["dot_dimension_numbers"])
        contracted = read_dims(text, "lhs_contracting_dimensions")
        left = shape_of(op.operands[0])
        flops = _multiply_add(op) * math.prod(shape_of(op.results[0])) * math.prod(left[i] for i in contracted)
        return OperationWork(flops, contracted, contracted_right=read_dims(text, "rhs_contracting_dimensions"))
    if op.name == "chlo.ragged_dot":
        return _ragged_dot_work(op)
    if op.name == "stablehlo.convolution":
        return _convolution_work(op)
    if op.name == "stablehlo.select_and_scatter" and "window_dimensions" in op.attributes:
        sizes = tuple(ir.DenseI64ArrayAttr(op.attributes["window_dimensions"]))
        strides = read_numbers(op, "window_strides", 1, len(sizes))
        return OperationWork(overlapping=tuple((dim, size) for dim, size in enumerate(sizes) if size > 1 and size >= 2 * strides[dim]))
    return _NOTHING


def _ragged_dot_work(op: ir.Operation) -> OperationWork:
    """Each row belongs to one group, so the number of groups does not matter: XLA:TPU multiplies it by that group's matrix only."""
    text = str(op.attributes["ragged_dot_dimension_numbers"])
    contracted, left = read_dims(text, "lhs_contracting_dimensions"), shape_of(op.operands[0])
    groups = shape_of(op.operands[2])[-1] if read_dims(text, "lhs_ragged_dimensions")[0] in contracted else 1
    flops = _multiply_add(op) * math.prod(shape_of(op.results[0])) * math.prod(left[i] for i in contracted) // groups
    return OperationWork(flops, contracted)


def is_complex(value: ir.Value) -> bool:
    return "xcomplex<" in str(value.type)


def _multiply_add(op: ir.Operation) -> int:
    """FLOP of a multiply-add; a complex one is four real ones."""
    return 8 if is_complex(op.results[0]) else 2


def is_exact(op: ir.Operation) -> bool:
    """Return whether a dot keeps its operands' precision; by default a TPU rounds them to bfloat16."""
    return "precision_config" in op.attributes and "HIGH" in str(op.attributes["precision_config"])


def selects(op: ir.Operation) -> bool:
    """Return whether a scatter changes at most one element of each row of a batch, like the gradient of
    `take_along_axis`.

    XLA:TPU lowers it to a comparison of positions and a select, which fuses like any elementwise operation.
    """
    if op.name != "stablehlo.scatter" or len(op.operands) != _ONE_SCATTERED:
        return False
    text = str(op.attributes["scatter_dimension_numbers"])
    rows, vector = read_dims(text, "scatter_indices_batching_dims"), text.partition("index_vector_dim = ")[2].partition(">")[0]
    places = (size for dim, size in enumerate(shape_of(op.operands[1])) if dim not in rows and dim != int(vector or 0))
    return bool(rows) and not read_dims(text, "update_window_dims") and math.prod(places) == 1


def is_serial(op: ir.Operation) -> bool:
    """Return whether XLA:TPU runs a scatter one row at a time: with several coordinates per row, one of them inside the
    row.

    An example is the gradient of a `dynamic_slice` under `vmap`, as of an embedding that looks up one token.
    """
    if op.name != "stablehlo.scatter":
        return False
    text = str(op.attributes["scatter_dimension_numbers"])
    coordinates = read_dims(text, "scatter_dims_to_operand_dims")
    return len(coordinates) > 1 and not set(coordinates) <= set(read_dims(text, "inserted_window_dims"))


def _convolution_work(op: ir.Operation) -> OperationWork:
    """Every output element sums over the kernel except its output features; zeros of `lhs_dilation` do not count."""
    kernel = shape_of(op.operands[1])
    features = dimension_numbers(op)[1].index("o")
    summed = tuple(i for i in range(len(kernel)) if i != features)
    dilation = math.prod(read_numbers(op, "lhs_dilation", 1, 0))
    window = [kernel[i] for i in summed]
    flops = _multiply_add(op) * math.prod(shape_of(op.results[0])) * math.prod(window) // dilation
    passes = _count_passes(op, kernel, window)
    return OperationWork(flops, summed, contracted_of=1, passes=passes, zeros=dilation, convolution=_read_convolution(op))


def _read_convolution(op: ir.Operation) -> Convolution:
    _, right, result = dimension_numbers(op)
    places = sorted((word for word in result if word.isdigit()), key=int)
    moves = [read_numbers(op, name, 1, 0) for name in _MOVES]
    return Convolution(
        math.prod(ir.IntegerAttr(op.attributes[name]).value for name in ("feature_group_count", "batch_group_count")),
        tuple(shape_of(op.operands[1])[right.index(word)] for word in places),
        result.index("f"),
        tuple(result.index(word) for word in places),
        all(step == 1 for steps in moves for step in steps),
        _find_misplaced(op),
    )


def _find_misplaced(op: ir.Operation) -> tuple[int, int] | None:
    """The feature dimensions of image and kernel, for a convolution whose result XLA shards along the wrong dimension.

    XLA partitions feature groups with one input channel each without communication. It then permutes the image's
    sharding into the order of the result's dimensions by the inverse of the right permutation (jaxlib 0.10.2), which
    differs if the permutation is longer than a swap. An example is the gradient of each sample's kernel: `[f, 0, 1,
    b]x[i, 0, 1, o]->[0, 1, b, f]`.
    """
    image, kernel, result = dimension_numbers(op)
    has_groups = ir.IntegerAttr(op.attributes["feature_group_count"]).value > 1
    if not has_groups or shape_of(op.operands[1])[kernel.index("i")] != 1:
        return None
    features = image.index("f")
    return None if result.index("f") == image.index(result[features]) else (features, kernel.index("o"))


def _count_passes(op: ir.Operation, kernel: Sequence[int], window: Sequence[int]) -> int:
    _, right, result = dimension_numbers(op)
    taps = math.prod(size for size, dim in zip(kernel, right, strict=True) if dim not in ("i", "o"))
    places = math.prod(size for size, dim in zip(shape_of(op.results[0]), result, strict=True) if dim not in ("b", "f"))
    return math.prod(window) // max(window) if taps <= places and min(window) else 1


def shifted_dims(op: ir.Operation) -> tuple[int, ...]:
    """The dimensions of the first result whose elements come from another position: slices, pads, windows, halos.

    If such a dimension is sharded, Shardy treats the operation as free of communication, and XLA fetches elements of
    other shards.
    """
    match op.name.removeprefix("stablehlo."):
        case "slice" | "pad" | "dynamic_slice" | "concatenate":
            return _unequal_dims(shape_of(op.operands[0]), shape_of(op.results[0]))
        case "dynamic_update_slice":
            whole, part = shape_of(op.operands[0]), shape_of(op.operands[1])
            return tuple(i for i in _unequal_dims(whole, part) if part[i] > 1)  # a single element is written without communication
        case "reverse":
            return tuple(ir.DenseI64ArrayAttr(op.attributes["dimensions"]))
        case "reduce_window":
            return tuple(i for i, size in enumerate(ir.DenseI64ArrayAttr(op.attributes["window_dimensions"])) if size > 1)
        case "convolution":
            _, kernel, result = dimension_numbers(op)
            sizes = shape_of(op.operands[1])
            return tuple(i for i, word in enumerate(result) if word.isdigit() and sizes[kernel.index(word)] > 1)
        case "fft":
            return tuple(range(0 if not SPLITS_FFT_BATCHES else fft_batch_rank(op), len(shape_of(op.results[0]))))
        case "custom_call" if is_top_k(op):
            return tuple(range(len(shape_of(op.results[0]))))  # XLA replicates a top-k
    return ()


def is_top_k(op: ir.Operation) -> bool:
    return op.name == "stablehlo.custom_call" and "mhlo.topk" in str(op.attributes["call_target_name"])


def _unequal_dims(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)


def unsplit_dims(op: ir.Operation) -> tuple[int, ...]:
    """The dimensions of the first operand that, if sharded, make XLA gather it whole and every device do all of the
    work.

    It partitions no grouped convolution along its batch, unless each group has one channel (jaxlib 0.10.2 to 0.12), no top-k,
    and before 0.12 no FFT.
    """
    if is_top_k(op):
        return tuple(range(len(shape_of(op.operands[0]))))
    if op.name == "stablehlo.fft":
        return () if SPLITS_FFT_BATCHES else tuple(range(fft_batch_rank(op)))
    if op.name != "stablehlo.convolution" or ir.IntegerAttr(op.attributes["feature_group_count"]).value == 1:
        return ()
    image, kernel, _ = dimension_numbers(op)
    return (image.index("b"),) if shape_of(op.operands[1])[kernel.index("i")] > 1 else ()


def fft_batch_rank(op: ir.Operation) -> int:
    """The number of leading dimensions that an FFT does not transform."""
    return len(shape_of(op.operands[0])) - len(ir.DenseI64ArrayAttr(op.attributes["fft_length"]))


def dimension_numbers(op: ir.Operation) -> tuple[list[str], ...]:
    """`[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]` as three lists of words."""
    text = str(op.attributes["dimension_numbers"])
    parts = text[text.index("[") : text.rindex("]") + 1].replace("->", "x").split("x")
    return tuple([word.strip() for word in part.strip("[]").split(",")] for part in parts)


# The dimensions of a dot or a convolution by kind, as XLA's partitioner classifies them (`dot_as_convolution_util.cc`).


LEFT, RIGHT, RESULT = 0, 1, 2


class DotDim(NamedTuple):
    """A dimension of a dot: its index in the left operand, the right operand and the result, -1 if absent."""

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
    """The dimensions of a dot or of an ungrouped convolution; `None` for other operations."""
    if op.name == "stablehlo.dot_general":
        return _read_dot(op)
    return _read_convolution_dims(op) if op.name == "stablehlo.convolution" else None


def _read_dot(op: ir.Operation) -> DotDims:
    """A dot's result has the batch first, then the rows, then the columns."""
    text = str(op.attributes["dot_dimension_numbers"])
    batch, summed = ([read_dims(text, f"{side}_{name}_dimensions") for side in ("lhs", "rhs")] for name in ("batching", "contracting"))
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


def _read_convolution_dims(op: ir.Operation) -> DotDims | None:
    """Spatial dimensions of size 1 are batch, as long as the window summed, with window 1 rows, others windowed."""
    if any(ir.IntegerAttr(op.attributes[name]).value > 1 for name in ("feature_group_count", "batch_group_count")):
        return None
    image, kernel, result = dimension_numbers(op)
    summed = [DotDim(image.index("f"), kernel.index("i"), -1)]
    rows, batch, spatial = [DotDim(image.index("b"), -1, result.index("b"))], [], []
    sizes = [tuple(ir.RankedTensorType(value.type).shape) for value in op.operands]
    windows = _read_windows(op, sum(word.isdigit() for word in image))
    for number, (stride, low, high, base, dilation, is_reversed) in enumerate(windows):
        dim = DotDim(image.index(str(number)), kernel.index(str(number)), result.index(str(number)))
        size, window = sizes[0][dim.left], sizes[1][dim.right]
        is_plain = base == dilation == 1 and low == high == 0 and not is_reversed
        if is_plain and window == size == stride == 1:
            batch.append(dim)
        elif is_plain and window == size:
            summed.append(dim)
        elif is_plain and window == stride == 1:
            rows.append(dim)
        else:
            spatial.append(dim)
    return DotDims(tuple(batch), tuple(summed), tuple(rows), (DotDim(-1, kernel.index("o"), result.index("f")),), tuple(spatial))


def _read_windows(op: ir.Operation, rank: int) -> list[tuple[int, ...]]:
    """Stride, low and high padding, base and window dilation, and reversal of each spatial dimension."""

    paddings = zip(*read_paddings(op, rank), strict=True) if rank else ((), ())
    has_reversal = "window_reversal" in op.attributes
    is_reversed = map(bool, ir.DenseBoolArrayAttr(op.attributes["window_reversal"])) if has_reversal else (False,) * rank
    strides, bases, dilations = (read_numbers(op, name, 1, rank) for name in _MOVES)
    return list(zip(strides, *paddings, bases, dilations, is_reversed, strict=True))


def read_numbers(op: ir.Operation, name: str, default: int, length: int) -> tuple[int, ...]:
    """An attribute's list of integers; `length` times `default` if it is absent."""
    return tuple(ir.DenseI64ArrayAttr(op.attributes[name])) if name in op.attributes else (default,) * length


def read_paddings(op: ir.Operation, rank: int) -> tuple[tuple[int, int], ...]:
    if "padding" not in op.attributes:
        return ((0, 0),) * rank
    flat = [int(number) for number in ir.DenseIntElementsAttr(op.attributes["padding"])]
    if len(flat) == 1:  # printed once where all are equal
        flat *= 2 * rank
    return tuple(zip(flat[::2], flat[1::2], strict=True))
