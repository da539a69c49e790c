"""Convolutions whose image is cut along a spatial dimension, and their gradients.

The result is cut as the image is: each part needs the borders of its neighbours (`PartitionConvolutionTiledOutput`). Input features that
are cut are summed, which Shardy counts. In a weight gradient image and kernel (the output's gradient) are cut alike: the image's borders
are exchanged, each device makes its part of the sum (`PartitionConvolutionWithSpatialDimensionHaloExchangeOnLHS`), and the sum is
all-reduced over all devices of the group. openxla/xla, `convolution_handler.cc`.
"""

import math
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.partition.own_communication.halo import exchange
from workbench.partition.own_communication.placed import NOTHING, Answer, Operator, Placed, Sent, numbers, paddings, shape_of
from workbench.partition.own_communication.windows import Window, permutes, whole, windowed
from workbench.partition.work import dimension_numbers
from workbench.sharding import base_axis


class Convolution(NamedTuple):
    """Windows along each dimension of the image (trivial for batch and features), and where each lies in the kernel."""

    windows: tuple[Window, ...]
    kernel_dims: tuple[int | None, ...]
    rounds: bool  # to two-byte floats where the back end does


def read(op: ir.Operation) -> Convolution | None:
    image, kernel, _ = dimension_numbers(op)
    sizes, spatial = shape_of(op.operands[1]), [word for word in image if word.isdigit()]
    rank = len(spatial)
    columns = (
        numbers(op, "window_strides", 1, rank),
        paddings(op, "padding", rank),
        numbers(op, "lhs_dilation", 1, rank),
        numbers(op, "rhs_dilation", 1, rank),
    )
    windows, kernel_dims = [Window()] * len(image), [None] * len(image)
    for number, (stride, (low, high), base, dilation) in enumerate(zip(*columns, strict=True)):
        dim, at = image.index(str(number)), kernel.index(str(number))
        windows[dim], kernel_dims[dim] = Window(sizes[at], stride, low, high, dilation, base), at
    if all(each.is_trivial for each in windows):
        return None
    precise = "precision_config" in op.attributes and "HIGH" in str(op.attributes["precision_config"])
    return Convolution(tuple(windows), tuple(kernel_dims), not precise)


def sends(facts: Convolution, placed: Placed) -> Answer | None:
    image, kernel = placed.operands[:2]
    narrow = facts.rounds and placed.backend.narrows_products
    cut = [dim for dim, at in enumerate(facts.kernel_dims) if at is not None and image.dims[dim]]
    if not cut:
        return NOTHING
    if any(kernel.dims[at] for dim in cut if (at := facts.kernel_dims[dim]) is not None):
        return _weight_gradient(facts, placed, cut, narrow=narrow)
    return windowed(facts.windows, placed, narrow=narrow)


def _weight_gradient(facts: Convolution, placed: Placed, cut: list[int], *, narrow: bool) -> Answer:
    """The parts of image (I) and kernel (K), WC windows: part i reads of the image K D i - low ... K D (i + 1) - D + 1 + (WC - 1) stride - low."""
    image, kernel = placed.operands[:2]
    shape = list(image.local(placed.mesh))
    found: list[Sent] = []
    for dim in cut:
        window, at = facts.windows[dim], facts.kernel_dims[dim]
        count = placed.parts(image.dims[dim])
        if window.base_dilation != 1 or at is None:
            return whole(placed, 0, 1)
        part, taken = math.ceil(image.shape[dim] / count), math.ceil(kernel.shape[at] / count) * window.dilation
        span = window.stride * (window.count(image.shape[dim]) - 1)
        left = [(part - taken) * i + window.low for i in range(count)]
        right = [(taken - part) * (i + 1) + 1 - window.dilation + span - window.low for i in range(count)]
        wanted = span + taken - window.dilation + 1
        pieces = exchange(part, left, right, window.low, wanted, image.shape[dim])
        if pieces is None:
            return whole(placed, 0, 1)
        found += permutes(pieces, dim, shape, image, placed, 0, narrow=narrow)
        shape[dim] = wanted
    return Answer(tuple(found))


def reductions(facts: Convolution, placed: Placed, axes: tuple[str, ...]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The all-reduces of a weight gradient whose parts are sums over `axes`: one of all cut spatial dimensions, after one for each other
    dimension. And the axes that XLA sums over as well though nothing of the convolution lies along them: the sum comes out so many times
    too large (jaxlib 0.10.2, on CPU and TPU; `create_cross_partition_all_reduce` is given no groups there). None of both if it is no such
    gradient."""
    image, kernel = placed.operands[:2]
    spatial = {at: dim for dim, at in enumerate(facts.kernel_dims) if at is not None and image.dims[dim] and kernel.dims[at]}
    together = tuple(axis for axis in axes if any(axis in image.dims[dim] for dim in spatial.values()))
    if not together:
        return [], ()
    rest = {tuple(axis for axis in dim if axis in axes and axis not in together) for dim in image.dims}
    used = {base_axis(axis) for each in (image, kernel, *placed.results) for dim in each.dims for axis in dim}
    replicas = tuple(name for name, size in placed.mesh.axes if size > 1 and name not in used)
    return [*(each for each in rest if each), _in_mesh_order((*together, *replicas), placed)], replicas


def _in_mesh_order(axes: tuple[str, ...], placed: Placed) -> tuple[str, ...]:
    order = {name: place for place, name in enumerate(placed.mesh.names)}
    return tuple(sorted(axes, key=lambda axis: order[base_axis(axis)]))


CONVOLUTION = Operator("convolution", ("stablehlo.convolution",), read, sends)
