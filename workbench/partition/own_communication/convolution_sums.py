"""Convolutions of an image and a kernel that are both cut: each device makes its part of a sum.

In a weight gradient image and kernel (the output's gradient) are cut alike along the spatial dimensions: the image's borders are
exchanged, and the parts are all-reduced (`PartitionConvolutionWithSpatialDimensionHaloExchangeOnLHS`; openxla/xla,
`convolution_handler.cc`). That all-reduce is over all devices of the group, those too that hold the same parts: then the result comes out
so many times too large. Seen of jaxlib 0.10.2, on CPU and in what XLA:TPU compiles, where

- nothing of the gradient lies along some mesh axis; the gradient of a kernel whose channels are convolved apart is one all-reduce over
  those devices too where the batch alone is cut;
- the gradient's input features are cut, and not its batch: they are gathered, and the axes they lay along hold the same;
- the kernel of an ordinary convolution is cut along its output features: XLA takes it for such a sum, if its borders reach no further
  than the neighbours, and cuts the kernel along the spatial dimensions.
"""

import math
from typing import Protocol

from workbench.mesh import Mesh
from workbench.partition.halo import Piece, exchange
from workbench.partition.own_communication.placed import Answer, Placed, Sent, Tensor, gathered, moved, sized
from workbench.partition.own_communication.windows import Window, permutes, whole
from workbench.sharding import base_axis

Exchanged = dict[int, tuple[tuple[Piece, ...], int]]


class Facts(Protocol):
    """Of a convolution, see `convolution.Convolution`."""

    @property
    def windows(self) -> tuple[Window, ...]: ...
    @property
    def kernel_dims(self) -> tuple[int | None, ...]: ...
    @property
    def batch(self) -> int: ...
    @property
    def features(self) -> int: ...
    @property
    def kernel_features(self) -> int: ...
    @property
    def result_batch(self) -> int: ...
    @property
    def grouped(self) -> bool: ...


def weight_gradient(facts: Facts, placed: Placed, cut: list[int], *, narrow: bool) -> Answer:
    """Image and kernel are cut alike."""
    image, kernel, result = (*placed.operands[:2], placed.results[0])
    exchanged = _exchanged(facts, image, kernel, cut, placed)
    if exchanged is None:
        return whole(placed, 0, 1)
    if not image.dims[facts.batch] or image.dims[facts.features] or kernel.dims[facts.kernel_features]:
        return Answer(_borders(exchanged, image, placed, narrow=narrow))
    joined = gathered(placed, image._replace(stored=image.dims), [facts.batch])
    held = image._replace(dims=tuple(() if dim == facts.batch else axes for dim, axes in enumerate(image.dims)))
    axes = _in_mesh_order(placed.mesh.names, placed)
    total = Sent("all-reduce", axes, sized(result.shape, result.itemsize), None)
    spatial = {axis for dim in cut for axis in image.dims[dim]}
    repeats = tuple(axis for axis in axes if axis not in spatial)
    return Answer((*joined, *_borders(exchanged, held, placed, narrow=narrow), total), makes_whole=True, repeats=repeats)


def taken_for_a_sum(facts: Facts, placed: Placed, cut: list[int], *, narrow: bool) -> Answer | None:
    """An ordinary convolution whose kernel is cut along its output features; `None` if XLA takes it for what it is."""
    image, kernel, result = (*placed.operands[:2], placed.results[0])
    is_cut = bool(kernel.dims[facts.kernel_features]) and not image.dims[facts.features] and not facts.grouped
    is_smaller = math.prod(kernel.shape) * kernel.itemsize <= math.prod(image.shape) * image.itemsize
    if not is_cut or not is_smaller or all(facts.windows[dim].is_trivial for dim in cut):
        return None
    exchanged = _exchanged(facts, image, kernel, cut, placed)
    if exchanged is None:
        return None
    apart = {base_axis(axis) for axis in image.dims[facts.batch]}
    group = placed._replace(mesh=Mesh(tuple(axis for axis in placed.mesh.axes if axis[0] not in apart)))
    target: list[tuple[str, ...]] = [()] * len(kernel.shape)
    for dim in cut:
        target[facts.kernel_dims[dim] or 0] = image.dims[dim]
    turned = moved(group, kernel._replace(stored=kernel.dims), tuple(target), 1)
    batch = tuple(axes if dim == facts.result_batch else () for dim, axes in enumerate(result.dims))
    axes = _in_mesh_order(group.mesh.names, placed)
    total = Sent("all-reduce", axes, sized(result._replace(dims=batch).local(placed.mesh), result.itemsize), None)
    spatial = {axis for dim in cut for axis in image.dims[dim]}
    repeats = tuple(axis for axis in axes if axis not in spatial)
    return Answer((*turned, *_borders(exchanged, image, placed, narrow=narrow), total), repeats=repeats)


def _exchanged(facts: Facts, image: Tensor, kernel: Tensor, cut: list[int], placed: Placed) -> Exchanged | None:
    """What is exchanged along each dimension, and how many elements of the image each device has then.

    Of image (I) and kernel (K), WC windows: part i reads of the image K D i - low ... K D (i + 1) - D + 1 + (WC - 1) stride - low.
    """
    found: Exchanged = {}
    for dim in cut:
        window, count = facts.windows[dim], placed.parts(image.dims[dim])
        if window.base_dilation != 1:
            return None
        part = math.ceil(image.shape[dim] / count)
        taken = math.ceil(kernel.shape[facts.kernel_dims[dim] or 0] / count) * window.dilation
        span = window.stride * (window.count(image.shape[dim]) - 1)
        left = [(part - taken) * i + window.low for i in range(count)]
        right = [(taken - part) * (i + 1) + 1 - window.dilation + span - window.low for i in range(count)]
        wanted = span + taken - window.dilation + 1
        pieces = exchange(part, left, right, window.low, wanted, image.shape[dim])
        if pieces is None:
            return None
        found[dim] = pieces, wanted
    return found


def _borders(exchanged: Exchanged, image: Tensor, placed: Placed, *, narrow: bool) -> tuple[Sent, ...]:
    shape = list(image.local(placed.mesh))
    found: list[Sent] = []
    for dim, (pieces, size) in exchanged.items():
        found += permutes(pieces, dim, shape, image, placed, 0, narrow=narrow)
        shape[dim] = size
    return tuple(found)


def reductions(facts: Facts, placed: Placed, axes: tuple[str, ...]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The all-reduces of a weight gradient whose parts are sums over `axes`: one of all cut spatial dimensions, after one for each other
    dimension, or of all together if channels are convolved apart; and the axes along which it sums the same. None of both if it is summed
    as a product is."""
    image, kernel = placed.operands[:2]
    spatial = {at: dim for dim, at in enumerate(facts.kernel_dims) if at is not None and image.dims[dim] and kernel.dims[at]}
    together = tuple(axis for axis in axes if any(axis in image.dims[dim] for dim in spatial.values()))
    if not together and not facts.grouped:
        return [], ()
    rest = {tuple(axis for axis in dim if axis in axes and axis not in together) for dim in image.dims}
    used = {base_axis(axis) for each in (image, kernel, *placed.results) for dim in each.dims for axis in dim}
    if facts.grouped:  # what Shardy would slice of one of them, XLA does not
        used = {base_axis(axis) for dim in image.stored for axis in dim} & {base_axis(axis) for dim in kernel.stored for axis in dim}
    replicas = tuple(name for name, size in placed.mesh.axes if size > 1 and name not in used)
    if facts.grouped:
        return [_in_mesh_order((*together, *(axis for each in rest for axis in each), *replicas), placed)], replicas
    return [*(each for each in rest if each), _in_mesh_order((*together, *replicas), placed)], replicas


def _in_mesh_order(axes: tuple[str, ...], placed: Placed) -> tuple[str, ...]:
    order = {name: place for place, name in enumerate(placed.mesh.names)}
    return tuple(sorted((axis for axis in axes if placed.parts((axis,)) > 1), key=lambda axis: order[base_axis(axis)]))
