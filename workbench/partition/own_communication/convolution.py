"""Convolutions whose image is cut along a spatial dimension: each part needs the borders of its neighbours
(`PartitionConvolutionTiledOutput`; openxla/xla, `convolution_handler.cc`). Input features that are cut are summed, which Shardy counts.

XLA tries another way first where image and kernel are both cut (`sums`): that of a weight gradient.
"""

from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.partition.attributes import Dims
from workbench.partition.own_communication.convolution_sums import taken_for_a_sum, weight_gradient
from workbench.partition.own_communication.placed import NOTHING, Answer, Operator, Placed, Tensor, moved, numbers, paddings, shape_of
from workbench.partition.own_communication.windows import Window, windowed
from workbench.partition.work import dimension_numbers


class Convolution(NamedTuple):
    """Windows along each dimension of the image (trivial for batch and features), and where each lies in the kernel."""

    windows: tuple[Window, ...]
    kernel_dims: tuple[int | None, ...]
    batch: int  # of the image
    features: int
    kernel_features: int  # output features
    result_batch: int
    result_features: int
    grouped: bool  # a depthwise one, say
    rounds: bool  # to two-byte floats where the back end does

    def cut(self, image: Tensor) -> list[int]:
        """The spatial dimensions of the image that are cut."""
        return [dim for dim, at in enumerate(self.kernel_dims) if at is not None and image.dims[dim]]


def read(op: ir.Operation) -> Convolution | None:
    image, kernel, result = dimension_numbers(op)
    sizes, spatial = shape_of(op.operands[1]), [word for word in image if word.isdigit()]
    rank = len(spatial)
    columns = (
        numbers(op, "window_strides", 1, rank),
        paddings(op, "padding", rank),
        numbers(op, "lhs_dilation", 1, rank),
        numbers(op, "rhs_dilation", 1, rank),
    )
    windows, kernel_dims = [Window()] * len(image), list[int | None]([None] * len(image))
    for number, (stride, (low, high), base, dilation) in enumerate(zip(*columns, strict=True)):
        dim, at = image.index(str(number)), kernel.index(str(number))
        windows[dim], kernel_dims[dim] = Window(sizes[at], stride, low, high, dilation, base), at
    if all(each.is_trivial for each in windows):
        return None
    precise = "precision_config" in op.attributes and "HIGH" in str(op.attributes["precision_config"])
    groups = any(ir.IntegerAttr(op.attributes[name]).value > 1 for name in ("feature_group_count", "batch_group_count"))
    features = image.index("f"), kernel.index("o")
    return Convolution(
        tuple(windows), tuple(kernel_dims), image.index("b"), *features, result.index("b"), result.index("f"), groups, not precise
    )


def channels_moved(facts: Convolution, placed: Placed) -> Answer:
    """Where channels are convolved apart, and the kernel is cut along them as the image is along its batch: the image is brought to the
    kernel, so that each device has some channels of all images, and the result is brought back."""
    image, kernel, result = *placed.operands[:2], placed.results[0]
    axes = kernel.stored[facts.kernel_features]
    if not facts.grouped or not axes or any(kernel.dims) or image.dims[facts.batch] != axes or image.dims[facts.features]:
        return NOTHING
    there = _turned(image.dims, facts.batch, facts.features)
    made = _turned(result.dims, facts.result_batch, facts.result_features)
    gone = moved(placed, image._replace(stored=image.dims), there)
    return Answer((*gone, *moved(placed, result._replace(stored=made), result.dims, None)), replaces=True)


def _turned(dims: Dims, source: int, target: int) -> Dims:
    """What lies along one dimension along another."""
    return tuple(() if dim == source else dims[source] if dim == target else axes for dim, axes in enumerate(dims))


def sends(facts: Convolution, placed: Placed) -> Answer | None:
    image, kernel = placed.operands[:2]
    narrow = facts.rounds and placed.backend.narrows_products
    cut = facts.cut(image)
    if not cut:
        return channels_moved(facts, placed)
    if any(kernel.dims[at] for dim in cut if (at := facts.kernel_dims[dim]) is not None):
        return weight_gradient(facts, placed, cut, narrow=narrow)
    return taken_for_a_sum(facts, placed, cut, narrow=narrow) or windowed(facts.windows, placed, narrow=narrow)


CONVOLUTION = Operator("convolution", ("stablehlo.convolution",), read, sends)
