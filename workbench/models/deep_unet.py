"""A U-Net of many convolutions a level, for pictures: long skips that a pipeline has to carry (torchgpipe's benchmark, "(B, C)").

    way down                                        way up
    down0/0 .. B-1  ------------- joined ------->   up0/0 .. B-1 -> segment
       down1/0 .. B-1  ---------- joined ---->   up1/0 .. B-1
          down2 ...                           ...
             bottleneck/0 .. B-1

What the first stage makes, the last one reads, past all between: in torchgpipe a "portal" from device to device, here a value that goes
straight from the stage that makes it to the one that reads it.

A convolution of 3 x 3 is normalised over the picture, without a scale or a bias, and passes a leaky rectifier. Left out: dropout (a tenth
of the channels, in torchgpipe's). Pooling and joining belong to the first convolution of the level they lead to.

Dimensions: batch, height, width, image_channels, channels (that a level gives on), joined_channels (those of the skip and of what comes
from below), hidden_channels and inner_channels (between a level's convolutions, by turns), kernel_height, kernel_width.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from workbench.core.program import Program
from workbench.errors import DocumentError
from workbench.models.config_fields import choose_preset, name_program, verify_halves
from workbench.models.data import synthetic_data
from workbench.models.layers.norms_and_losses import instance_norm
from workbench.models.layers.weight_tables import Params, count_parameters, draw, name_dims
from workbench.models.size_limits import verify_divides
from workbench.tracing import checkpoint_name, layer, trace_training

# The sizes of torchgpipe's U-Net for pictures, (B, C) as its benchmarks call them.


@dataclass(frozen=True, slots=True)
class DeepUNetConfig:
    """One U-Net of `levels` and how it is trained.

    - `convolutions`: B, in a level on its way down, in one on its way up, and at the bottom;
    - `channels`: C, that the finest level gives on; each level below has twice those of the one above;
    - `size` of pictures along height and width: 2 to the number of levels must divide it.
    """

    convolutions: int
    channels: int
    levels: int
    image_channels: int
    size: int
    batch: int
    learning_rate: float = 0.1


def _memory(convolutions: int, channels: int) -> DeepUNetConfig:
    """torchgpipe's `benchmarks/unet-memory`: 32 pictures of 192 x 192, five levels, SGD."""
    return DeepUNetConfig(convolutions, channels, levels=5, image_channels=3, size=192, batch=32)


PRESETS: dict[str, DeepUNetConfig] = {
    "tiny": DeepUNetConfig(convolutions=2, channels=4, levels=2, image_channels=3, size=16, batch=8),
    # 362.2M, 2.21B, 4.99B, 7.80B and 15.82B parameters (torchgpipe's table of memory), on 1, 1, 2, 4 and 8 devices.
    "torchgpipe-6-72": _memory(6, 72),
    "torchgpipe-11-128": _memory(11, 128),
    "torchgpipe-24-128": _memory(24, 128),
    "torchgpipe-24-160": _memory(24, 160),
    "torchgpipe-48-160": _memory(48, 160),
}


LAYOUTS = (
    ("data:8", "batch:data"),
    ("data:4 model:2", "batch:data; hidden_channels:model"),
    ("data:4 height:2", "batch:data; height:height"),
    ("data:4 model:2", "batch:data; channels:model"),
)
"""For `tiny` on eight devices: data parallel; each pair of convolutions split between them; pictures in bands;
split where levels meet."""

Table = tuple[dict[str, str], dict[str, int]]


def _sizes(config: DeepUNetConfig) -> Iterator[tuple[str, tuple[str, int], int, int]]:
    """Of each level: its name, the name and number of the channels it is given, of those between its convolutions, of those it makes."""
    wide = [config.channels * 2**level for level in range(config.levels + 1)]
    for level in range(config.levels):
        enter = ("channels", wide[level - 1]) if level else ("image_channels", config.image_channels)
        yield f"down{level}", enter, wide[level], wide[level]
    yield "bottleneck", ("channels", wide[-2]), wide[-1], wide[-2]
    for level in reversed(range(config.levels)):
        yield f"up{level}", ("joined_channels", wide[level + 1]), wide[level] // 2, wide[level] // 2


def tables(config: DeepUNetConfig) -> dict[str, Table]:
    """Each convolution by its path, in the order in which they compute."""
    found = {}
    for level, given, between, made in _sizes(config):
        enter = given
        for number in range(config.convolutions):
            last = number == config.convolutions - 1
            leave = ("channels", made) if last else (("hidden_channels", "inner_channels")[number % 2], between)
            dims = {"kernel_height": 3, "kernel_width": 3, enter[0]: enter[1], leave[0]: leave[1]}
            found[f"{level}/{number}"] = {"w": f"kernel_height kernel_width {enter[0]} > {leave[0]}"}, dims
            enter = leave
    found["segment"] = {"w": "channels >"}, {"channels": config.channels // 2}
    return found


def parameters(config: DeepUNetConfig) -> int:
    """The number of parameters, from the sizes alone.

    >>> parameters(PRESETS["torchgpipe-6-72"])
    362157516
    """
    return sum(count_parameters(*table) for table in tables(config).values())


def dims(config: DeepUNetConfig) -> dict[str, str]:
    """Path patterns to names, for parameters and batch."""
    named = {"batch/images": "batch height width image_channels", "batch/targets": "batch height width"}
    for path, (weights, _) in tables(config).items():
        named |= name_dims(weights, f"{path}/")
    return named


def init(key: Any, config: DeepUNetConfig) -> Params:
    """The parameters: of each level a list of convolutions, and `segment`."""
    found: Params = {level: [] for level, *_ in _sizes(config)}
    for number, (path, table) in enumerate(tables(config).items()):
        level, _, place = path.partition("/")
        drawn = draw(jax.random.fold_in(key, number), *table, gain=2.0)
        if place:
            found[level].append(drawn)
        else:
            found[level] = drawn
    return found


@layer
def _convolve(weights: Params, x: Any) -> Any:
    """x [batch, height, width, channels] convolved, normalised, rectified."""
    made = jax.lax.conv_general_dilated(
        x, weights["w"].astype(x.dtype), (1, 1), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jax.nn.leaky_relu(instance_norm({}, checkpoint_name(made, "convolved")))


def _max_pool(x: Any) -> Any:
    """The largest of each 2 x 2."""
    for axis in (1, 2):
        pairs = x.reshape(*x.shape[:axis], x.shape[axis] // 2, 2, *x.shape[axis + 1 :])
        x = jnp.maximum(*(jax.lax.index_in_dim(pairs, half, axis + 1, keepdims=False) for half in (0, 1)))
    return x


def _upsample(x: Any) -> Any:
    """Each pixel four times."""
    batch, height, width, channels = x.shape
    wide = jnp.broadcast_to(x[:, :, None, :, None], (batch, height, 2, width, 2, channels))
    return wide.reshape(batch, 2 * height, 2 * width, channels)


def apply(params: Params, images: Any, config: DeepUNetConfig) -> Any:
    """float32[batch, height, width] of logits from [batch, height, width, image_channels]."""
    x = images
    skips: list[Any] = []
    for level, *_ in _sizes(config):
        for number, weights in enumerate(params[level]):
            with jax.named_scope(f"{level}/{number}"):
                if number == 0 and level.startswith("up"):
                    x = jnp.concatenate([_upsample(x), skips.pop()], axis=-1)
                elif number == 0 and skips:
                    x = _max_pool(x)
                x = _convolve(weights, x)
        if level.startswith("down"):
            skips.append(x)
    with jax.named_scope("segment"):
        return jnp.einsum("bhwc,c->bhw", x, params["segment"]["w"], preferred_element_type=jnp.float32)


def make_loss(config: DeepUNetConfig) -> Callable[[Params, dict[str, Any]], Any]:
    """`loss(params, {"images", "targets"})`: the mean over pixels of the cross entropy of "within a disc", in nats."""

    def loss(params: Params, batch: dict[str, Any]) -> Any:
        logits = apply(params, batch["images"], config)
        with jax.named_scope("loss"):
            return (jax.nn.softplus(logits) - logits * batch["targets"]).mean()

    return loss


def build(*, preset: str = "tiny", **changes: Any) -> Program:
    """A training step of a preset with SGD, any of its sizes changed, by the names of `DeepUNetConfig`'s fields; nothing is allocated. Live
    runs train on drawn discs.

    Raises `DocumentError` for an unknown preset or size, a size that cannot be halved as often as the network does, an odd number of
    channels, or a single convolution a level.
    """
    config = choose_preset(PRESETS, preset, **changes)
    verify_sizes(config)
    start = partial(init, config=config)
    specs = {
        "images": jax.ShapeDtypeStruct((config.batch, config.size, config.size, config.image_channels), jnp.float32),
        "targets": jax.ShapeDtypeStruct((config.batch, config.size, config.size), jnp.int32),
    }
    return trace_training(
        make_loss(config),
        jax.eval_shape(lambda: start(jax.random.key(0))),  # a key made outside would wake the devices
        specs,
        optimizer=optax.sgd(config.learning_rate),
        dims=dims(config),
        name=name_program("deep U-Net", preset, changes),
        init=start,
        data=synthetic_data.discs(config.batch, config.size, config.image_channels),
    )


def verify_sizes(config: DeepUNetConfig) -> None:
    if config.convolutions < 2:
        raise DocumentError("A level has one convolution; it needs one to enter and one to leave.", ["take `convolutions` 2 or more"])
    verify_halves("channels", config.channels, True, "the last level gives on half of them")
    parts = 2**config.levels
    verify_divides("size", config.size, parts, f"{config.levels} levels halve it {config.levels} times, and {parts} does not divide it")
