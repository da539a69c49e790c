"""Convolutions whose image is cut along a spatial dimension: each part needs the borders of its neighbours
(`PartitionConvolutionTiledOutput`; openxla/xla, `convolution_handler.cc`). Input features that are cut are summed, which Shardy counts.

XLA tries another way first where image and kernel are both cut (`sums`): that of a weight gradient.
"""

from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.partition.own_communication.convolution_sums import taken_for_a_sum, weight_gradient
from workbench.partition.own_communication.placed import NOTHING, Answer, Operator, Placed, Tensor, numbers, paddings, shape_of
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
    return Convolution(tuple(windows), tuple(kernel_dims), image.index("b"), *features, result.index("b"), groups, not precise)


def sends(facts: Convolution, placed: Placed) -> Answer | None:
    image, kernel = placed.operands[:2]
    narrow = facts.rounds and placed.backend.narrows_products
    cut = facts.cut(image)
    if not cut:
        return NOTHING
    if any(kernel.dims[at] for dim in cut if (at := facts.kernel_dims[dim]) is not None):
        return weight_gradient(facts, placed, cut, narrow=narrow)
    return taken_for_a_sum(facts, placed, cut, narrow=narrow) or windowed(facts.windows, placed, narrow=narrow)


CONVOLUTION = Operator("convolution", ("stablehlo.convolution",), read, sends)
