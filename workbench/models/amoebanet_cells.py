"""The sizes and cells of AmoebaNet-D, with the weights of each cell and their dimension names."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from workbench.models.config_fields import optimizer_named, verify_words
from workbench.models.layers.weight_tables import Params, count_parameters, draw, name_dims

# The sizes of AmoebaNet-D, with those of the GPipe paper, and the two evolved cells.

NORMAL = (
    (1, "conv_1x1"),
    (1, "max_3x3"),
    (1, "none"),
    (0, "conv_1x7_7x1"),
    (0, "conv_1x1"),
    (0, "conv_1x7_7x1"),
    (2, "max_3x3"),
    (2, "none"),
    (1, "average_3x3"),
    (5, "conv_1x1"),
)
"""Operations of the normal cell in pairs: input state and operation; the sum of a pair is the next state. States 0 and
1 are the outputs of the two previous cells. Real et al. 2019 (arXiv:1802.01548), as the TPU models and torchgpipe's
benchmarks implement it.
"""

REDUCTION = (
    (0, "max_2x2"),
    (0, "max_3x3"),
    (2, "none"),
    (1, "conv_3x3"),
    (2, "conv_1x7_7x1"),
    (2, "max_3x3"),
    (3, "none"),
    (1, "max_2x2"),
    (2, "average_3x3"),
    (3, "conv_1x1"),
)
"""Operations of the reduction cell, which halves height and width: operations on states 0 and 1 have stride 2."""

JOINED = {False: (0, 3, 4, 6), True: (4, 5, 6)}
"""The states that form the output of a normal cell and of a reduction cell. The paper concatenates 4, 5 and 6 in both;
the TPU models concatenate 0, 3, 4 and 6, which gives GPipe's parameter counts.
"""


@dataclass(frozen=True, slots=True)
class AmoebaNetConfig:
    """One AmoebaNet-D and how it is trained.

    - `cells`: L, the normal cells, in three groups of as many; a cell that reduces comes before the second and the third;
    - `filters`: D, four times the width that the stem begins with; every reduction doubles the width;
    - `size` of images along height and width: the network halves it five times;
    - `optimizer`: its name (`tracing.named_optimizers`).
    """

    cells: int
    filters: int
    image_channels: int
    classes: int
    size: int
    batch: int
    optimizer: str = optimizer_named("rmsprop")
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        verify_words(self)

    @property
    def parameters(self) -> int:
        """Number of parameters, from the sizes alone.

        >>> from workbench.models.amoebanet_cells import PRESETS
        >>> PRESETS["gpipe-18-208"].parameters
        81505540
        """
        return sum(count_parameters(*table) for table in tables(self).values())


def _imagenet(cells: int, filters: int) -> AmoebaNetConfig:
    """Huang et al. 2019 (GPipe), table 1: 224 x 224, batch 128. torchgpipe has the same parameter counts."""
    return AmoebaNetConfig(cells, filters, image_channels=3, classes=1000, size=224, batch=128)


PRESETS: dict[str, AmoebaNetConfig] = {
    # For virtual devices: three cells, one at each size, the last with a single pixel.
    "tiny": AmoebaNetConfig(cells=3, filters=16, image_channels=3, classes=10, size=32, batch=8),
    # Table 2 of GPipe has 18-256, table 1 the others, with 82M, 318M, 542M, 1.05B and 1.8B parameters.
    "gpipe-18-208": _imagenet(18, 208),
    "gpipe-18-256": _imagenet(18, 256),
    "gpipe-18-416": _imagenet(18, 416),
    "gpipe-18-544": _imagenet(18, 544),
    "gpipe-36-544": _imagenet(36, 544),
    "gpipe-72-512": _imagenet(72, 512),
}


# The cells of an AmoebaNet-D: their weights, dimension names and initialization.

Table = tuple[dict[str, str], dict[str, int]]


class Cell(NamedTuple):
    """Path, channels of the two previous cells and of its states; whether it and the previous cell reduce."""

    path: str
    earlier: int
    before: int
    states: int
    reduces: bool
    reduced: bool

    @property
    def operations(self) -> tuple[tuple[int, str], ...]:
        return REDUCTION if self.reduces else NORMAL

    @property
    def made(self) -> int:
        return self.states * len(JOINED[self.reduces])


def cells(config: AmoebaNetConfig) -> Iterator[Cell]:
    group = (False,) * (config.cells // 3)
    kinds = (True, True, *group, True, *group, True, *group)
    states = earlier = before = config.filters // 4
    reduced = False
    for number, reduces in enumerate(kinds):
        states *= 2 if reduces else 1
        cell = Cell(f"stem/{number + 1}" if number < 2 else f"cells/{number - 2}", earlier, before, states, reduces, reduced)
        yield cell
        earlier, before, reduced = before, cell.made, reduces


def _convolution(enter: str, entering: int, made: str, making: int, *, height: int = 1, width: int = 1) -> Table:
    weights = {"w": f"kernel_height kernel_width {enter} > {made}", "scale": made, "bias": made}
    return weights, {"kernel_height": height, "kernel_width": width, enter: entering, made: making}


def _bottleneck(path: str, states: int, *kernels: tuple[int, int]) -> dict[str, Table]:
    """Kernels on a quarter of the channels, between two 1 x 1 convolutions."""
    narrow = states // 4
    layers = {f"{path}/narrow": _convolution("hidden_channels", states, "narrow_channels", narrow)}
    for number, (height, width) in enumerate(kernels):
        # The two channel dimensions of a kernel need different names.
        enter, made = ("narrow_channels", "inner_channels") if number % 2 == 0 else ("inner_channels", "narrow_channels")
        layers[f"{path}/kernel{number}"] = _convolution(enter, narrow, made, narrow, height=height, width=width)
    last = "inner_channels" if len(kernels) % 2 else "narrow_channels"
    layers[f"{path}/widen"] = _convolution(last, narrow, "state_channels", states)
    return layers


def _operation_tables(name: str, path: str, states: int) -> dict[str, Table]:
    match name:
        case "conv_1x1":
            return {path: _convolution("hidden_channels", states, "state_channels", states)}
        case "conv_3x3":
            return _bottleneck(path, states, (3, 3))
        case "conv_1x7_7x1":
            return _bottleneck(path, states, (1, 7), (7, 1))
    return {}


def _entry_tables(cell: Cell) -> dict[str, Table]:
    layers = {f"{cell.path}/before": _convolution("channels", cell.before, "hidden_channels", cell.states)}
    if cell.reduced:
        for half in ("even", "odd"):
            weights, sizes = _convolution("channels", cell.earlier, "half_channels", cell.states // 2)
            layers[f"{cell.path}/earlier/{half}"] = {"w": weights["w"]}, sizes
        layers[f"{cell.path}/earlier/norm"] = {"scale": "hidden_channels", "bias": "hidden_channels"}, {"hidden_channels": cell.states}
    elif cell.earlier != cell.states:
        layers[f"{cell.path}/earlier"] = _convolution("channels", cell.earlier, "hidden_channels", cell.states)
    return layers


def tables(config: AmoebaNetConfig) -> dict[str, Table]:
    channels = config.filters // 4
    layers = {"stem/0": _convolution("image_channels", config.image_channels, "channels", channels, height=3, width=3)}
    for cell in cells(config):
        layers |= _entry_tables(cell)
        for number, (_, name) in enumerate(cell.operations):
            layers |= _operation_tables(name, f"{cell.path}/op{number}", cell.states)
        channels = cell.made
    layers["classify"] = {"w": "channels > classes", "bias": "classes"}, {"channels": channels, "classes": config.classes}
    return layers


def dims(config: AmoebaNetConfig) -> dict[str, str]:
    named = {"batch/images": "batch height width image_channels", "batch/targets": "batch"}
    for path, (weights, _) in tables(config).items():
        named |= name_dims(weights, f"{path}/")
    return named


def init(key: Any, config: AmoebaNetConfig) -> Params:
    params: Params = {"stem": [{}, {}, {}], "cells": [{} for _ in range(config.cells + 2)], "classify": {}}
    for number, (path, table) in enumerate(tables(config).items()):
        branch: Any = params
        for word in path.split("/"):
            branch = branch[int(word)] if isinstance(branch, list) else branch.setdefault(word, {})
        branch.update(draw(jax.random.fold_in(key, number), *table, gain=2.0))
    return params
