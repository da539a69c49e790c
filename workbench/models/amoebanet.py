"""AmoebaNet-D, the convolutional network of the GPipe paper: cells of unequal cost, each reading the two before it.

    stem/0  stem/1  stem/2   cells/0 .. L/3-1   cells/L/3   ...            ...            classify
    1/2     1/4     1/8      1/8                1/16        1/16           1/32           of the image size

    inputs of a cell:    cell i-2 ---------------+
                                                 |
                         cell i-1 --> cell i <---+     so a boundary after cell i-1 carries two values

Its pipelines are hard to balance: all cells have equal FLOPs (half the size, twice the width), but the early ones have four times
the activations of the next size, and the classifier has a tenth of the work and most of the weights (Huang et al. 2019, tables 1, 2).

An operation applies ReLU, a convolution and batch normalization (over the micro-batch in a pipeline: GPipe, 2.2).
Omitted: the auxiliary head, drop path, and the running statistics for evaluation.

Dimensions: batch, height, width, image_channels, channels (cell outputs), hidden_channels (states of a cell), state_channels
(outputs of a state's convolution), narrow_channels and inner_channels (of a bottleneck: a quarter), half_channels (of each
half of a reduction), kernel_height, kernel_width, classes.
"""

from collections.abc import Callable
from functools import cache, partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
"""For `tiny` on eight devices: data parallel, bottlenecks sharded, states sharded, bottlenecks and cell outputs
sharded. In the last one XLA:CPU uses some all-gathers where the plan has reduces.
"""

HALVINGS = 5


def _convolve(weights: Params, x: Any, stride: int = 1) -> Any:
    height, width, *_ = weights["w"].shape
    padding = ((height // 2,) * 2, (width // 2,) * 2)
    convolved = jax.lax.conv_general_dilated(
        jax.nn.relu(x), weights["w"].astype(x.dtype), (stride,) * 2, padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return batch_norm(weights, checkpoint_name(convolved, "convolved"))


def _apply_bottleneck(weights: Params, x: Any, stride: int = 1) -> Any:
    x = _convolve(weights["narrow"], x)
    for number in range(len(weights) - 2):
        x = _convolve(weights[f"kernel{number}"], x, 1 if number else stride)
    return _convolve(weights["widen"], x)


def _halve_size(weights: Params, x: Any) -> Any:
    """Halve height and width: one half of the channels from the even positions, the other from the odd ones."""
    x = jax.nn.relu(x)
    halves = [jnp.einsum("bhwc,co->bhwo", x[:, k::2, k::2], weights[name]["w"][0, 0]) for k, name in enumerate(("even", "odd"))]
    return batch_norm(weights["norm"], jnp.concatenate(halves, axis=-1))


def _slice_windows(x: Any, axis: int, window: int, stride: int, fill: float) -> list[Any]:
    """Strided slices at each window offset along `axis`; windows of three are padded with `fill`."""
    reach = window // 2 if window % 2 else 0
    wide = jnp.pad(x, [(reach, reach) if i == axis else (0, 0) for i in range(x.ndim)], constant_values=fill)
    last = (x.shape[axis] - 1) // stride * stride
    return [jax.lax.slice_in_dim(wide, k, k + last + 1, stride, axis) for k in range(window)]


def _max_pool(x: Any, window: int, stride: int) -> Any:
    for axis in (1, 2):
        x = reduce(jnp.maximum, _slice_windows(x, axis, window, stride, -np.inf))
    return x


def _average_pool(x: Any) -> Any:
    """3 x 3 average pooling without the padding."""
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
    """Apply a cell to the outputs of the previous cell and of the one before that."""
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
    return jnp.concatenate([states[number] for number in JOINED[cell.reduces]], axis=-1)


@cache
def _layer(cell: Cell) -> Callable[..., Any]:
    """One function for equal cells, so that JAX traces it once."""
    return layer(partial(_apply_cell, cell=cell))


def apply(params: Params, images: Any, config: AmoebaNetConfig) -> Any:
    with jax.named_scope("stem/0"):
        before = earlier = _convolve(params["stem"][0], images, 2)
    for cell in cells_of(config):
        group, number = cell.path.split("/")
        with jax.named_scope(cell.path):
            before, earlier = _layer(cell._replace(path=""))(params[group][int(number)], before, earlier), before
    with jax.named_scope("classify"):
        weights = params["classify"]
        return before.mean((1, 2)) @ weights["w"] + weights["bias"]


def make_loss(config: AmoebaNetConfig) -> Loss:
    """`loss(params, {"images", "targets"})`: mean cross entropy of the image class in nats."""
    return classification_loss(partial(apply, config=config), "images")


def build(*, preset: str = "tiny", **changes: Any) -> Program:
    """Build a training step of a preset with RMSProp; keyword arguments override the fields of `AmoebaNetConfig`.

    Nothing is allocated. Live runs train on synthetic stripes. Raises `DocumentError` for an unknown preset or size,
    cells that do not form three groups, filters that are no multiple of 8, or a size that cannot be halved often
    enough.
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
        jax.eval_shape(lambda: start(jax.random.key(0))),  # a concrete key would initialize the devices
        specs,
        optimizer=f"{config.optimizer} {config.learning_rate}",
        dims=dims(config),
        name=name_program("amoebanet", preset, changes),
        init=start,
        data=synthetic_data.stripes(config.batch, config.size, config.image_channels, config.classes),
    )


def verify_sizes(config: AmoebaNetConfig) -> None:
    verify_divides("cells", config.cells, 3, "they form 3 groups of equal size")
    verify_divides("filters", config.filters, 8, "its narrowest products make an eighth of them")
    parts = 2**HALVINGS
    verify_divides("size", config.size, parts, f"the network halves it {HALVINGS} times, and {parts} does not divide it")
