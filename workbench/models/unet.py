"""A 3-D U-Net that classifies every voxel of a volume (Cicek et al. 2016, arXiv:1606.06650).

    size     way down                        way up
    1        level 0 --------- joined ---->  level 0 -> head
    1/2         level 1 ------ joined -->  level 1
    1/4            level 2 (the coarsest)

A level is two convolutions of 3 x 3 x 3, each normalised and rectified. Volumes are too large for one device: GSPMD and Mesh-TensorFlow
split `depth`, `height` and `width` over devices (spatial partitioning), and a convolution then needs the voxels at the faces of its
neighbours' parts (a halo). On the way up, windows of 2 x 2 x 2 do not overlap: it is a product and a transposition, and needs none; nor
does the maximum of two where every part is even.

Dimensions: batch, depth, height, width, image_channels, channels (that a level gives on), hidden_channels (between a level's two
convolutions), up_channels (of what comes from below), joined_channels (these and those of the way down), kernel_depth, kernel_height,
kernel_width, classes. All but batch and classes have a size for each level; a layout's rule splits all of these.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from workbench.core.program import Program
from workbench.models.config_fields import FLOATS, choose_preset, name_program, one_of, verify_relation, verify_words, word_or_none
from workbench.models.data import synthetic_data
from workbench.models.layers.norms_and_losses import Loss, batch_norm, classification_loss, instance_norm
from workbench.models.layers.weight_tables import Params, count_parameters, draw, name_dims
from workbench.models.size_limits import verify_divides
from workbench.tracing import checkpoint_name, layer, trace_training

# The sizes of the 3-D U-Net, and the published ones.


@dataclass(frozen=True, slots=True)
class UNetConfig:
    """One 3-D U-Net and how it is trained.

    - `size` of the volume along depth, height and width: 2 to the number of levels less one must divide it;
    - `channels` that each level gives on, from the finest, and `narrow` those between the two convolutions of the way down;
    - `pool`: levels are halved by the `max` of two, or by the `stride` of their first convolution;
    - `widen`: the way up doubles the size and keeps the channels, and leaves it to the convolutions to reduce them; else it reduces them
      itself;
    - `norm`: `batch` or `instance`; `scale`: a normalisation has a factor, besides its bias; `biases` of the way up and of the head;
    - `compute`: the type of activations; `None` is that of the parameters.
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
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        verify_words(self)
        verify_relation(
            len(self.channels) == len(self.narrow),
            f"`channels` are of {len(self.channels)} levels and `narrow` of {len(self.narrow)}; each level has one of both.",
            "give as many of both",
        )


PRESETS: dict[str, UNetConfig] = {
    # For eight virtual devices, small enough to run; the coarsest level has 4 places along each dimension.
    "tiny": UNetConfig(channels=(8, 16, 32), narrow=(8, 16, 32), image_channels=1, classes=4, size=16, batch=8),
    # Cicek et al. 2016 (arXiv:1606.06650), figure 2: 19,069,955 parameters, three image channels, three classes. Its convolutions are not
    # padded, and take 132 x 132 x 116; here they are, as halves and halos are then the same for every part, and take 128 cubed.
    "cicek-2016": UNetConfig(
        channels=(64, 128, 256, 512),
        narrow=(32, 64, 128, 256),
        image_channels=3,
        classes=3,
        size=128,
        batch=8,
        widen=True,
        scale=False,
    ),
    # Mesh-TensorFlow's `experimental/unet.py`, for CT of the liver and its lesions: the defaults of its flags.
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
    # MLPerf Training's `image_segmentation/pytorch` for CT of kidneys: five halvings by stride, instance normalisation, a batch of 2.
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
"""For `tiny` on eight devices: data parallel, a level's inner channels split, and volumes in slabs and in columns."""

Table = tuple[dict[str, str], dict[str, int]]


def _convolution(enter: str, entering: int, made: str, making: int, *, window: int = 3, parts: tuple[str, ...] = ("bias",)) -> Table:
    """The weights of one convolution, and the sizes of their dimensions."""
    weights = {"w": f"kernel_depth kernel_height kernel_width {enter} > {made}"} | dict.fromkeys(parts, made)
    return weights, {"kernel_depth": window, "kernel_height": window, "kernel_width": window, enter: entering, made: making}


def tables(config: UNetConfig) -> dict[str, Table]:
    """Each convolution by its path: of the levels on the way down, of those on the way up, and what leads up to them."""
    normed = ("scale", "bias") if config.scale else ("bias",)
    found = {}
    for number, (narrow, made) in enumerate(zip(config.narrow, config.channels, strict=True)):
        enter = ("channels", config.channels[number - 1]) if number else ("image_channels", config.image_channels)
        found[f"down/{number}/conv1"] = _convolution(*enter, "hidden_channels", narrow, parts=normed)
        found[f"down/{number}/conv2"] = _convolution("hidden_channels", narrow, "channels", made, parts=normed)
    for number, (made, below) in enumerate(zip(config.channels[:-1], config.channels[1:], strict=True)):
        up = below if config.widen else made
        bias = ("bias",) if config.up_bias else ()
        found[f"up/{number}/widen"] = _convolution("channels", below, "up_channels", up, window=2, parts=bias)
        found[f"up/{number}/conv1"] = _convolution("joined_channels", up + made, "hidden_channels", made, parts=normed)
        found[f"up/{number}/conv2"] = _convolution("hidden_channels", made, "channels", made, parts=normed)
    found["head"] = {"w": "channels > classes", "bias": "classes"}, {"channels": config.channels[0], "classes": config.classes}
    return found


def dims(config: UNetConfig) -> dict[str, str]:
    """Path patterns to names, for parameters, optimiser state and batch."""
    named = {"batch/volumes": "batch depth height width image_channels", "batch/targets": "batch depth height width"}
    for path, (weights, _) in tables(config).items():
        named |= name_dims(weights, f"{path}/")
    return named


def parameters(config: UNetConfig) -> int:
    """The number of parameters, from the sizes alone.

    >>> parameters(PRESETS["cicek-2016"])
    19069955
    """
    return sum(count_parameters(*table) for table in tables(config).values())


def init(key: Any, config: UNetConfig) -> Params:
    """The parameters: `down` and `up`, lists of levels from the finest, and `head`."""
    found: Params = {"down": [{} for _ in config.channels], "up": [{} for _ in config.channels[1:]], "head": {}}
    for number, (path, table) in enumerate(tables(config).items()):
        drawn = draw(jax.random.fold_in(key, number), *table, gain=2.0)
        way, *rest = path.split("/")
        if rest:
            found[way][int(rest[0])][rest[1]] = drawn
        else:
            found[way] = drawn
    return found


def _convolve(weights: Params, x: Any, config: UNetConfig, stride: int = 1) -> Any:
    """x [batch, depth, height, width, channels] convolved, normalised, rectified; one zero is padded on each side."""
    made = jax.lax.conv_general_dilated(
        x, weights["w"].astype(x.dtype), (stride,) * 3, ((1, 1),) * 3, dimension_numbers=("NDHWC", "DHWIO", "NDHWC")
    )
    norm = batch_norm if config.norm == "batch" else instance_norm
    return jax.nn.relu(norm(weights, checkpoint_name(made, "convolved")))


def _level(weights: Params, x: Any, config: UNetConfig, stride: int = 1) -> Any:
    with jax.named_scope("conv1"):
        x = _convolve(weights["conv1"], x, config, stride)
    with jax.named_scope("conv2"):
        return _convolve(weights["conv2"], x, config)


def _max_pool(x: Any) -> Any:
    """The largest of each 2 x 2 x 2, along one dimension of space after the other; the windows do not overlap.

    The gradient of `max` over a dimension finds the largest again by equality, and divides by how many there are: none, if what is computed
    again in the backward pass is fused in another way and differs in its last bit.
    """
    for axis in (1, 2, 3):
        pairs = x.reshape(*x.shape[:axis], x.shape[axis] // 2, 2, *x.shape[axis + 1 :])
        x = jnp.maximum(*(jax.lax.index_in_dim(pairs, half, axis + 1, keepdims=False) for half in (0, 1)))
    return x


def _upsample(weights: Params, x: Any) -> Any:
    """Twice the size along each dimension of space, by windows that do not overlap: a product and a transposition."""
    batch, *size, _ = x.shape
    made = jnp.einsum("bdhwc,xyzco->bdxhywzo", x, weights["w"].astype(x.dtype))
    made = made.reshape(batch, *(2 * each for each in size), -1)
    return made + weights["bias"].astype(x.dtype) if "bias" in weights else made


def apply(params: Params, volumes: Any, config: UNetConfig) -> Any:
    """float32[batch, depth, height, width, classes] of logits from [batch, depth, height, width, image_channels]."""
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
    """`loss(params, {"volumes", "targets"})`: the mean cross entropy of a voxel's class, in nats."""
    return classification_loss(partial(apply, config=config), "volumes")


def build(*, preset: str = "tiny", **changes: Any) -> Program:
    """A training step of a preset with Adam, any of its sizes and choices changed by the name of its field in `UNetConfig`.
    Nothing is allocated. Live runs train on drawn volumes.

    Raises `DocumentError` for an unknown preset or choice, and for choices that do not go together: a size that cannot be halved as often
    as the network does.
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
        jax.eval_shape(lambda: start(jax.random.key(0))),  # a key made outside would wake the devices
        specs,
        optimizer=optax.adam(config.learning_rate),
        dims=dims(config),
        name=name_program("unet", preset, changes),
        init=start,
        data=synthetic_data.scans(config.batch, config.size, config.image_channels, config.classes),
    )


def verify_size(config: UNetConfig) -> None:
    levels = len(config.channels)
    parts = 2 ** (levels - 1)
    verify_divides("size", config.size, parts, f"{levels} levels halve it {levels - 1} times, and {parts} does not divide it")
