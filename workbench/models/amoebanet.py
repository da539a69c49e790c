"""AmoebaNet-D, the convolutional network that GPipe was made for: cells of unequal cost, each reading the two before it.

    stem/0  stem/1  stem/2   cells/0 .. L/3-1   cells/L/3   ...            ...            classify
    1/2     1/4     1/8      1/8                1/16        1/16           1/32           of the image's size

    what a cell reads:   cell i-2 ---------------+
                                                 |
                         cell i-1 --> cell i <---+     so a cut behind cell i-1 carries two values

A pipeline of it is hard to balance: a cell costs as much arithmetic at every size (half the size, twice the width), but the early ones move
four times the activations of the next, and the classifier has a tenth of the work and most of the weights (Huang et al. 2019, tables 1, 2).

An operation rectifies, convolves and normalises by the statistics of the batch (of the micro-batch, where there are several: GPipe, 2.2).
Left out: the auxiliary head, dropped paths, and the running statistics that evaluation would use.

Dimensions: batch, height, width, image_channels, channels (that a cell gives on), hidden_channels (of a cell's states), state_channels
(that a convolution of one state makes the next of), narrow_channels and inner_channels (of a bottleneck: a quarter), half_channels (of each
half of a reduction), kernel_height, kernel_width, classes.
"""

from collections.abc import Callable
from functools import cache, partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from workbench.core.program import Program
from workbench.models.amoebanet_cells import JOINED, PRESETS, AmoebaNetConfig, Cell, dims, init
from workbench.models.amoebanet_cells import cells as cells_of
from workbench.models.config_fields import choose_preset, name_program
from workbench.models.data import synthetic_data
from workbench.models.layers.norms_and_losses import Loss, batch_norm, classification_loss
from workbench.models.layers.weight_tables import Params
from workbench.models.size_limits import verify_divides
from workbench.tracing import checkpoint_name, layer, trace_training

LAYOUTS = (
    ("data:8", "batch:data"),
    ("data:4 model:2", "batch:data; narrow_channels:model"),
    ("data:2 model:4", "batch:data; hidden_channels:model"),
    ("data:4 model:2", "batch:data; narrow_channels:model; channels:model"),
)
"""For `tiny` on eight devices: data parallel, the bottlenecks split, the states split, bottlenecks and what cells give on. XLA:CPU gathers
some of what the plan reduces in the last."""

HALVINGS = 5


def _convolve(weights: Params, x: Any, stride: int = 1) -> Any:
    """x [batch, height, width, channels] rectified, convolved, normalised."""
    height, width, *_ = weights["w"].shape
    padding = ((height // 2,) * 2, (width // 2,) * 2)
    made = jax.lax.conv_general_dilated(
        jax.nn.relu(x), weights["w"].astype(x.dtype), (stride,) * 2, padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return batch_norm(weights, checkpoint_name(made, "convolved"))


def _apply_bottleneck(weights: Params, x: Any, stride: int = 1) -> Any:
    """Through a bottleneck; its first kernel takes every `stride`-th place."""
    x = _convolve(weights["narrow"], x)
    for number in range(len(weights) - 2):
        x = _convolve(weights[f"kernel{number}"], x, 1 if number else stride)
    return _convolve(weights["widen"], x)


def _halve_size(weights: Params, x: Any) -> Any:
    """Half the size: one half of the channels from the even places, the other from the odd ones."""
    x = jax.nn.relu(x)
    halves = [jnp.einsum("bhwc,co->bhwo", x[:, k::2, k::2], weights[name]["w"][0, 0]) for k, name in enumerate(("even", "odd"))]
    return batch_norm(weights["norm"], jnp.concatenate(halves, axis=-1))


def _slice_windows(x: Any, axis: int, window: int, stride: int, fill: float) -> list[Any]:
    """What stands at each place of a window along `axis`; a window of three reaches one place beyond the edge."""
    reach = window // 2 if window % 2 else 0
    wide = jnp.pad(x, [(reach, reach) if i == axis else (0, 0) for i in range(x.ndim)], constant_values=fill)
    last = (x.shape[axis] - 1) // stride * stride
    return [jax.lax.slice_in_dim(wide, k, k + last + 1, stride, axis) for k in range(window)]


def _max_pool(x: Any, window: int, stride: int) -> Any:
    """Of each window, along one dimension after the other; by comparison of two, as the 3-D U-Net's pooling."""
    for axis in (1, 2):
        x = reduce(jnp.maximum, _slice_windows(x, axis, window, stride, -np.inf))
    return x


def _average_pool(x: Any) -> Any:
    """Of each 3 x 3; what lies beyond the edge does not count."""
    for axis in (1, 2):
        size = x.shape[axis]
        counts = 3.0 - (np.arange(size) == 0) - (np.arange(size) == size - 1)
        x = sum(_slice_windows(x, axis, 3, 1, 0.0)) / counts.reshape([-1 if i == axis else 1 for i in range(x.ndim)]).astype(x.dtype)
    return x


def _apply_operation(name: str, weights: Params, x: Any, stride: int) -> Any:
    match name:
        case "conv_1x1":
            return _convolve(weights, x, stride)
        case "conv_3x3" | "conv_1x7_7x1":
            return _apply_bottleneck(weights, x, stride)
        case "max_2x2" | "max_3x3":
            return _max_pool(x, int(name[-1]), stride)
        case "average_3x3":
            return _average_pool(x)
    return x


def _apply_cell(weights: Params, before: Any, earlier: Any, cell: Cell) -> Any:
    """What a cell makes of what the one before it made, and the one before that."""
    with jax.named_scope("before"):
        states = [_convolve(weights["before"], before)]
    with jax.named_scope("earlier"):
        states.append((_halve_size if cell.reduced else _convolve)(weights["earlier"], earlier) if "earlier" in weights else earlier)
    for number in range(0, len(cell.operations), 2):
        pair = []
        for index in (number, number + 1):
            state, name = cell.operations[index]
            with jax.named_scope(f"op{index}"):
                stride = 2 if cell.reduces and state < 2 else 1
                pair.append(_apply_operation(name, weights.get(f"op{index}", {}), states[state], stride))
        states.append(pair[0] + pair[1])
    return jnp.concatenate([states[each] for each in JOINED[cell.reduces]], axis=-1)


@cache
def _layer(cell: Cell) -> Callable[..., Any]:
    """The same function for cells that are alike: JAX traces it once."""
    return layer(partial(_apply_cell, cell=cell))


def apply(params: Params, images: Any, config: AmoebaNetConfig) -> Any:
    """float32[batch, classes] of logits from [batch, height, width, image_channels]."""
    with jax.named_scope("stem/0"):
        before = earlier = _convolve(params["stem"][0], images, 2)
    for cell in cells_of(config):
        way, number = cell.path.split("/")
        with jax.named_scope(cell.path):
            before, earlier = _layer(cell._replace(path=""))(params[way][int(number)], before, earlier), before
    with jax.named_scope("classify"):
        weights = params["classify"]
        return before.mean((1, 2)) @ weights["w"] + weights["bias"]


def make_loss(config: AmoebaNetConfig) -> Loss:
    """`loss(params, {"images", "targets"})`: the mean cross entropy of an image's class, in nats."""
    return classification_loss(partial(apply, config=config), "images")


def build(*, preset: str = "tiny", **changes: Any) -> Program:
    """A training step of a preset with RMSProp, any of its sizes changed by the name of its field in `AmoebaNetConfig`.
    Nothing is allocated. Live runs train on drawn stripes.

    Raises `DocumentError` for an unknown preset or size, cells that do not go into three groups, filters that 8 does not divide, or a size
    that cannot be halved as often as the network does.
    """
    config = choose_preset(PRESETS, preset, **changes)
    verify_sizes(config)
    start = partial(init, config=config)
    specs = {
        "images": jax.ShapeDtypeStruct((config.batch, config.size, config.size, config.image_channels), jnp.float32),
        "targets": jax.ShapeDtypeStruct((config.batch,), jnp.int32),
    }
    return trace_training(
        make_loss(config),
        jax.eval_shape(lambda: start(jax.random.key(0))),  # a key made outside would wake the devices
        specs,
        optimizer=optax.rmsprop(config.learning_rate, momentum=0.9),
        dims=dims(config),
        name=name_program("amoebanet", preset, changes),
        init=start,
        data=synthetic_data.stripes(config.batch, config.size, config.image_channels, config.classes),
    )


def verify_sizes(config: AmoebaNetConfig) -> None:
    verify_divides("cells", config.cells, 3, "they stand in 3 groups of as many")
    verify_divides("filters", config.filters, 8, "its narrowest products make an eighth of them")
    parts = 2**HALVINGS
    verify_divides("size", config.size, parts, f"the network halves it {HALVINGS} times, and {parts} does not divide it")
