"""A 2-D U-Net with many convolutions per level: long skip connections in a pipeline (torchgpipe's benchmark, "(B, C)").

    way down                                        way up
    down0/0 .. B-1  ------------ skip ---------->   up0/0 .. B-1 -> segment
       down1/0 .. B-1  --------- skip ------->   up1/0 .. B-1
          down2 ...                           ...
             bottleneck/0 .. B-1

The last stage reads results of the first one: in torchgpipe through a "portal" from device to device, here as a value that is sent
directly from the stage that makes it to the one that reads it.

Each 3 x 3 convolution has instance normalization, without a scale or a bias, and a leaky ReLU. Omitted: dropout (a tenth
of the channels in torchgpipe). Pooling and concatenation belong to the first convolution of their target level.

Dimensions: batch, height, width, image_channels, channels (outputs of a level), joined_channels (the skip and the output of the level
below), hidden_channels and inner_channels (alternating, between a level's convolutions), kernel_height, kernel_width.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.errors import DocumentError
from workbench.models.config_fields import choose_preset, name_program, optimizer_named, verify_halves, verify_words
from workbench.models.data import synthetic_data
from workbench.models.layers.norms_and_losses import instance_norm
from workbench.models.layers.weight_tables import Params, count_parameters, draw, name_dims
from workbench.models.size_limits import verify_divides
from workbench.tracing import checkpoint_name, layer, trace_training

# The sizes of torchgpipe's U-Net, called (B, C) in its benchmarks.


@dataclass(frozen=True, slots=True)
class DeepUNetConfig:
    """One U-Net of `levels` and how it is trained.

    - `convolutions`: B, in a level on its way down, in one on its way up, and at the bottom;
    - `channels`: C, that the finest level gives on; each level below has twice those of the one above;
    - `size` of pictures along height and width: 2 to the number of levels must divide it;
    - `optimizer`: its name (`tracing.named_optimizers`).
    """

    convolutions: int
    channels: int
    levels: int
    image_channels: int
    size: int
    batch: int
    optimizer: str = optimizer_named("sgd")
    learning_rate: float = 0.1

    def __post_init__(self) -> None:
        verify_words(self)

    @property
    def parameters(self) -> int:
        """Number of parameters, from the sizes alone.

        >>> PRESETS["torchgpipe-6-72"].parameters
        362157516
        """
        return sum(count_parameters(*table) for table in tables(self).values())


def _memory(convolutions: int, channels: int) -> DeepUNetConfig:
    """torchgpipe's `benchmarks/unet-memory`: 32 images of 192 x 192, five levels, SGD."""
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
"""For `tiny` on eight devices: data parallel, pairs of convolutions, height, and channels between levels sharded."""

Table = tuple[dict[str, str], dict[str, int]]


def _sizes(config: DeepUNetConfig) -> Iterator[tuple[str, tuple[str, int], int, int]]:
    """Name of each level, name and number of its input channels, then its hidden and its output channels."""
    wide = [config.channels * 2**level for level in range(config.levels + 1)]
    for level in range(config.levels):
        enter = ("channels", wide[level - 1]) if level else ("image_channels", config.image_channels)
        yield f"down{level}", enter, wide[level], wide[level]
    yield "bottleneck", ("channels", wide[-2]), wide[-1], wide[-2]
    for level in reversed(range(config.levels)):
        yield f"up{level}", ("joined_channels", wide[level + 1]), wide[level] // 2, wide[level] // 2


def tables(config: DeepUNetConfig) -> dict[str, Table]:
    layers = {}
    for level, entry, between, outputs in _sizes(config):
        enter = entry
        for number in range(config.convolutions):
            last = number == config.convolutions - 1
            leave = ("channels", outputs) if last else (("hidden_channels", "inner_channels")[number % 2], between)
            dims = {"kernel_height": 3, "kernel_width": 3, enter[0]: enter[1], leave[0]: leave[1]}
            layers[f"{level}/{number}"] = {"w": f"kernel_height kernel_width {enter[0]} > {leave[0]}"}, dims
            enter = leave
    layers["segment"] = {"w": "channels >"}, {"channels": config.channels // 2}
    return layers


def dims(config: DeepUNetConfig) -> dict[str, str]:
    named = {"batch/images": "batch height width image_channels", "batch/targets": "batch height width"}
    for path, (weights, _) in tables(config).items():
        named |= name_dims(weights, f"{path}/")
    return named


def init(key: Any, config: DeepUNetConfig) -> Params:
    params: Params = {level: [] for level, *_ in _sizes(config)}
    for number, (path, table) in enumerate(tables(config).items()):
        level, _, place = path.partition("/")
        drawn = draw(jax.random.fold_in(key, number), *table, gain=2.0)
        if place:
            params[level].append(drawn)
        else:
            params[level] = drawn
    return params


@layer
def _convolve(weights: Params, x: Any) -> Any:
    convolved = jax.lax.conv_general_dilated(
        x, weights["w"].astype(x.dtype), (1, 1), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jax.nn.leaky_relu(instance_norm({}, checkpoint_name(convolved, "convolved")))


def _max_pool(x: Any) -> Any:
    for axis in (1, 2):
        pairs = x.reshape(*x.shape[:axis], x.shape[axis] // 2, 2, *x.shape[axis + 1 :])
        x = jnp.maximum(*(jax.lax.index_in_dim(pairs, half, axis + 1, keepdims=False) for half in (0, 1)))
    return x


def _upsample(x: Any) -> Any:
    batch, height, width, channels = x.shape
    wide = jnp.broadcast_to(x[:, :, None, :, None], (batch, height, 2, width, 2, channels))
    return wide.reshape(batch, 2 * height, 2 * width, channels)


def apply(params: Params, images: Any, config: DeepUNetConfig) -> Any:
    """Logits float32[batch, height, width] of images [batch, height, width, image_channels]."""
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
    """`loss(params, {"images", "targets"})`: mean binary cross entropy over pixels in nats."""

    def loss(params: Params, batch: dict[str, Any]) -> Any:
        logits = apply(params, batch["images"], config)
        with jax.named_scope("loss"):
            return (jax.nn.softplus(logits) - logits * batch["targets"]).mean()

    return loss


def build(*, preset: str = "tiny", **changes: Any) -> Program:
    """Build a training step of a preset with SGD; keyword arguments override the fields of `DeepUNetConfig`.

    Nothing is allocated. Live runs train on synthetic discs. Raises `DocumentError` for an unknown preset or size, a
    size that cannot be halved often enough, an odd number of channels, or a single convolution per level.
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
        jax.eval_shape(lambda: start(jax.random.key(0))),  # a concrete key would initialize the devices
        specs,
        optimizer=f"{config.optimizer} {config.learning_rate}",
        dims=dims(config),
        name=name_program("deep U-Net", preset, changes),
        init=start,
        data=synthetic_data.discs(config.batch, config.size, config.image_channels),
    )


def verify_sizes(config: DeepUNetConfig) -> None:
    if config.convolutions < 2:
        raise DocumentError(
            "A level has one convolution; it needs at least two, one to enter and one to leave.", ["take `convolutions` 2 or more"]
        )
    verify_halves("channels", config.channels, True, "the last level returns half of them")
    parts = 2**config.levels
    verify_divides("size", config.size, parts, f"{config.levels} levels halve it {config.levels} times, and {parts} does not divide it")
