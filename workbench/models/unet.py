"""A 3-D U-Net that classifies every voxel of a volume (Cicek et al. 2016, arXiv:1606.06650).

    size     way down                        way up
    1        level 0 ---------- skip ----->  level 0 -> head
    1/2         level 1 ------- skip --->  level 1
    1/4            level 2 (the coarsest)

A level is two 3 x 3 x 3 convolutions, each with normalization and ReLU. Volumes are too large for one device: GSPMD and Mesh-TensorFlow
shard `depth`, `height` and `width` (spatial partitioning), and a convolution then needs boundary voxels of neighboring
shards (a halo). The 2 x 2 x 2 windows on the way up do not overlap: upsampling is a product and a transpose without a halo, and so
is the max pooling of pairs if every shard has an even size.

Dimensions: batch, depth, height, width, image_channels, channels (outputs of a level), hidden_channels (between a level's two
convolutions), up_channels (after upsampling), joined_channels (these and the skip connection), kernel_depth, kernel_height,
kernel_width, classes. All but batch and classes have one size per level; a layout's rule shards all of them.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.config_fields import (
    FLOATS,
    choose_preset,
    name_program,
    one_of,
    optimizer_named,
    verify_relation,
    verify_words,
    word_or_none,
)
from workbench.models.data import synthetic_data
from workbench.models.layers.norms_and_losses import Loss, batch_norm, classification_loss, instance_norm
from workbench.models.layers.weight_tables import Params, count_parameters, draw, name_dims
from workbench.models.size_limits import verify_divides
from workbench.tracing import checkpoint_name, layer, trace_training

# The sizes of the 3-D U-Net, with those of published models.


@dataclass(frozen=True, slots=True)
class UNetConfig:
    """One 3-D U-Net and how it is trained.

    - `size` of the volume along depth, height and width: 2 to the number of levels less one must divide it;
    - `channels` that each level gives on, from the finest, and `narrow` those between the two convolutions of the way down;
    - `pool`: levels are halved by the `max` of two, or by the `stride` of their first convolution;
    - `widen`: the way up doubles the size and keeps the channels, and leaves it to the convolutions to reduce them; else it reduces them
      itself;
    - `norm`: `batch` or `instance`; `scale`: a normalisation has a factor, besides its bias; `biases` of the way up and of the head;
    - `compute`: the type of activations; `None` is that of the parameters;
    - `optimizer`: its name (`tracing.named_optimizers`).
    """

    channels: tuple[int, ...]
    narrow: tuple[int, ...]
    image_channels: int
    classes: int
    size: int
    batch: int
    pool: str = one_of("max", "stride")
    widen: bool = False
    norm: str = one_of("batch", "instance")
    scale: bool = True
    up_bias: bool = False
    compute: str | None = word_or_none(*FLOATS)
    optimizer: str = optimizer_named("adam")
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        verify_words(self)
        verify_relation(
            len(self.channels) == len(self.narrow),
            f"`channels` are of {len(self.channels)} levels and `narrow` of {len(self.narrow)}; each level has one of both.",
            "give as many of both",
        )

    @property
    def parameters(self) -> int:
        """Number of parameters, from the sizes alone.

        >>> PRESETS["cicek-2016"].parameters
        19069955
        """
        return sum(count_parameters(*table) for table in tables(self).values())


PRESETS: dict[str, UNetConfig] = {
    # Small enough to run on eight virtual devices; the coarsest level has 4 voxels along each dimension.
    "tiny": UNetConfig(channels=(8, 16, 32), narrow=(8, 16, 32), image_channels=1, classes=4, size=16, batch=8),
    # Cicek et al. 2016 (arXiv:1606.06650), figure 2: 19,069,955 parameters, three image channels, three classes. Its convolutions are not
    # padded and take 132 x 132 x 116. Here they are padded and take 128 cubed, so that halves and halos are equal for all shards.
    "cicek-2016": UNetConfig(
        channels=(64, 128, 256, 512), narrow=(32, 64, 128, 256), image_channels=3, classes=3, size=128, batch=8, widen=True, scale=False
    ),
    # Mesh-TensorFlow's `experimental/unet.py`, for CT of the liver and its lesions, with default flags.
    "mesh-tensorflow": UNetConfig(
        channels=(32, 64, 128, 256),
        narrow=(32, 64, 128, 256),
        image_channels=1,
        classes=3,
        size=128,
        batch=32,
        up_bias=True,
        compute="bfloat16",
    ),
    # MLPerf Training's `image_segmentation/pytorch` for CT of kidneys: five halvings by stride, instance normalization, batch 2.
    "mlperf-kits19": UNetConfig(
        channels=(32, 64, 128, 256, 320, 320),
        narrow=(32, 64, 128, 256, 320, 320),
        image_channels=1,
        classes=3,
        size=128,
        batch=2,
        pool="stride",
        norm="instance",
        up_bias=True,
        compute="bfloat16",
    ),
}


LAYOUTS = (
    ("data:8", "batch:data"),
    ("data:4 model:2", "batch:data; hidden_channels:model"),
    ("data:2 space:4", "batch:data; depth:space"),
    ("data:2 rows:2 cols:2", "batch:data; depth:rows; height:cols"),
)
"""For `tiny` on eight devices: data parallel, inner channels of levels sharded, volumes in slabs and in columns."""

Table = tuple[dict[str, str], dict[str, int]]


def _convolution(enter: str, entering: int, made: str, making: int, *, window: int = 3, parts: tuple[str, ...] = ("bias",)) -> Table:
    weights = {"w": f"kernel_depth kernel_height kernel_width {enter} > {made}"} | dict.fromkeys(parts, made)
    return weights, {"kernel_depth": window, "kernel_height": window, "kernel_width": window, enter: entering, made: making}


def tables(config: UNetConfig) -> dict[str, Table]:
    normed = ("scale", "bias") if config.scale else ("bias",)
    layers = {}
    for number, (narrow, made) in enumerate(zip(config.narrow, config.channels, strict=True)):
        enter = ("channels", config.channels[number - 1]) if number else ("image_channels", config.image_channels)
        layers[f"down/{number}/conv1"] = _convolution(*enter, "hidden_channels", narrow, parts=normed)
        layers[f"down/{number}/conv2"] = _convolution("hidden_channels", narrow, "channels", made, parts=normed)
    for number, (made, below) in enumerate(zip(config.channels[:-1], config.channels[1:], strict=True)):
        up = below if config.widen else made
        bias = ("bias",) if config.up_bias else ()
        layers[f"up/{number}/widen"] = _convolution("channels", below, "up_channels", up, window=2, parts=bias)
        layers[f"up/{number}/conv1"] = _convolution("joined_channels", up + made, "hidden_channels", made, parts=normed)
        layers[f"up/{number}/conv2"] = _convolution("hidden_channels", made, "channels", made, parts=normed)
    layers["head"] = {"w": "channels > classes", "bias": "classes"}, {"channels": config.channels[0], "classes": config.classes}
    return layers


def dims(config: UNetConfig) -> dict[str, str]:
    named = {"batch/volumes": "batch depth height width image_channels", "batch/targets": "batch depth height width"}
    for path, (weights, _) in tables(config).items():
        named |= name_dims(weights, f"{path}/")
    return named


def init(key: Any, config: UNetConfig) -> Params:
    params: Params = {"down": [{} for _ in config.channels], "up": [{} for _ in config.channels[1:]], "head": {}}
    for number, (path, table) in enumerate(tables(config).items()):
        drawn = draw(jax.random.fold_in(key, number), *table, gain=2.0)
        side, *rest = path.split("/")
        if rest:
            params[side][int(rest[0])][rest[1]] = drawn
        else:
            params[side] = drawn
    return params


def _convolve(weights: Params, x: Any, config: UNetConfig, stride: int = 1) -> Any:
    convolved = jax.lax.conv_general_dilated(
        x, weights["w"].astype(x.dtype), (stride,) * 3, ((1, 1),) * 3, dimension_numbers=("NDHWC", "DHWIO", "NDHWC")
    )
    norm = batch_norm if config.norm == "batch" else instance_norm
    return jax.nn.relu(norm(weights, checkpoint_name(convolved, "convolved")))


def _level(weights: Params, x: Any, config: UNetConfig, stride: int = 1) -> Any:
    with jax.named_scope("conv1"):
        x = _convolve(weights["conv1"], x, config, stride)
    with jax.named_scope("conv2"):
        return _convolve(weights["conv2"], x, config)


def _max_pool(x: Any) -> Any:
    """2 x 2 x 2 max pooling, separably along the dimensions. Pairwise `maximum`, because the gradient of `max` finds
    the maximum again by equality and divides by the number of matches. That is zero if recomputation in the backward
    pass is fused differently and differs in the last bit.
    """
    for axis in (1, 2, 3):
        pairs = x.reshape(*x.shape[:axis], x.shape[axis] // 2, 2, *x.shape[axis + 1 :])
        x = jnp.maximum(*(jax.lax.index_in_dim(pairs, half, axis + 1, keepdims=False) for half in (0, 1)))
    return x


def _upsample(weights: Params, x: Any) -> Any:
    batch, *size, _ = x.shape
    wide = jnp.einsum("bdhwc,xyzco->bdxhywzo", x, weights["w"].astype(x.dtype))
    wide = wide.reshape(batch, *(2 * length for length in size), -1)
    return wide + weights["bias"].astype(x.dtype) if "bias" in weights else wide


def apply(params: Params, volumes: Any, config: UNetConfig) -> Any:
    """Logits float32[batch, depth, height, width, classes] of volumes [batch, depth, height, width, image_channels]."""
    x, skips = volumes.astype(config.compute or volumes.dtype), []
    for number, weights in enumerate(params["down"]):
        halved = number > 0
        with jax.named_scope(f"down/{number}"):
            x = _max_pool(x) if halved and config.pool == "max" else x
            stride = 2 if halved and config.pool == "stride" else 1
            x = layer(partial(_level, config=config, stride=stride))(weights, x)
        skips.append(x)
    for number in reversed(range(len(params["up"]))):
        weights = params["up"][number]
        with jax.named_scope(f"up/{number}"):
            with jax.named_scope("widen"):
                wide = _upsample(weights["widen"], x)
            x = layer(partial(_level, config=config))(weights, jnp.concatenate([wide, skips[number]], axis=-1))
    with jax.named_scope("head"):
        logits = jnp.einsum("bdhwc,co->bdhwo", x, params["head"]["w"].astype(x.dtype), preferred_element_type=jnp.float32)
        return logits + params["head"]["bias"]


def make_loss(config: UNetConfig) -> Loss:
    """`loss(params, {"volumes", "targets"})`: mean cross entropy of the voxel class in nats."""
    return classification_loss(partial(apply, config=config), "volumes")


def build(*, preset: str = "tiny", **changes: Any) -> Program:
    """Build a training step of a preset with Adam; keyword arguments override the fields of `UNetConfig`.

    Nothing is allocated. Live runs train on synthetic volumes. Raises `DocumentError` for an unknown preset or field,
    and for incompatible values, such as a size that cannot be halved often enough.
    """
    config = choose_preset(PRESETS, preset, **changes)
    verify_size(config)
    start, space = partial(init, config=config), (config.size,) * 3
    specs = {
        "volumes": jax.ShapeDtypeStruct((config.batch, *space, config.image_channels), jnp.float32),
        "targets": jax.ShapeDtypeStruct((config.batch, *space), jnp.int32),
    }
    return trace_training(
        make_loss(config),
        jax.eval_shape(lambda: start(jax.random.key(0))),  # a concrete key would initialize the devices
        specs,
        optimizer=f"{config.optimizer} {config.learning_rate}",
        dims=dims(config),
        name=name_program("unet", preset, changes),
        init=start,
        data=synthetic_data.scans(config.batch, config.size, config.image_channels, config.classes),
    )


def verify_size(config: UNetConfig) -> None:
    levels = len(config.channels)
    parts = 2 ** (levels - 1)
    verify_divides("size", config.size, parts, f"{levels} levels halve it {levels - 1} times, and {parts} does not divide it")
