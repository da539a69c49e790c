"""The sizes of AmoebaNet-D, and its cells: which weights each has, and what their dimensions are named."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from workbench.models.layers.weight_tables import Params, count_parameters, draw, name_dims

# The sizes of AmoebaNet-D, those that GPipe published, and the two cells that evolution found.

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
"""Of the normal cell, two by two: which state an operation reads, and what it does to it; the sum of two is the next state. States 0 and 1
are what the two cells before gave on. Real et al. 2019 (arXiv:1802.01548), as the TPU models and torchgpipe's benchmarks implement it."""

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
"""Of the cell that halves height and width: operations on states 0 and 1 take every second place."""

JOINED = {False: (0, 3, 4, 6), True: (4, 5, 6)}
"""The states that a cell gives on side by side, of the normal cell and of the one that reduces. The paper joins 4, 5 and 6 in both; the TPU
models join 0, 3, 4 and 6, and GPipe's parameters are counted so."""


@dataclass(frozen=True, slots=True)
class AmoebaNetConfig:
    """One AmoebaNet-D and how it is trained.

    - `cells`: L, the normal cells, in three groups of as many; a cell that reduces comes before the second and the third;
    - `filters`: D, four times the width that the stem begins with; every reduction doubles the width;
    - `size` of images along height and width: the network halves it five times.
    """

    cells: int
    filters: int
    image_channels: int
    classes: int
    size: int
    batch: int
    learning_rate: float = 1e-3


def _imagenet(cells: int, filters: int) -> AmoebaNetConfig:
    """Huang et al. 2019 (GPipe), table 1: 224 x 224, batch 128. torchgpipe counts the same parameters in its own."""
    return AmoebaNetConfig(cells, filters, image_channels=3, classes=1000, size=224, batch=128)


PRESETS: dict[str, AmoebaNetConfig] = {
    # For virtual devices: three cells, one at each size, the last of a single pixel.
    "tiny": AmoebaNetConfig(cells=3, filters=16, image_channels=3, classes=10, size=32, batch=8),
    # Table 2 of GPipe is of 18-256, table 1 of the others: 82M, 318M, 542M, 1.05B and 1.8B parameters there.
    "gpipe-18-208": _imagenet(18, 208),
    "gpipe-18-256": _imagenet(18, 256),
    "gpipe-18-416": _imagenet(18, 416),
    "gpipe-18-544": _imagenet(18, 544),
    "gpipe-36-544": _imagenet(36, 544),
    "gpipe-72-512": _imagenet(72, 512),
}


# The cells of an AmoebaNet-D, which weights each has, what their dimensions are called, and how they are drawn.

Table = tuple[dict[str, str], dict[str, int]]


class Cell(NamedTuple):
    """One cell: its path, channels of the two before it, of its states; whether it halves the size, and whether the one before did."""

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
    """All of them, from the stem on."""
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
    """The weights of a convolution and of the normalisation behind it, and the sizes of their dimensions."""
    weights = {"w": f"kernel_height kernel_width {enter} > {made}", "scale": made, "bias": made}
    return weights, {"kernel_height": height, "kernel_width": width, enter: entering, made: making}


def _bottleneck(path: str, states: int, *kernels: tuple[int, int]) -> dict[str, Table]:
    """A quarter of the channels between two products, with the kernels in between."""
    narrow = states // 4
    found = {f"{path}/narrow": _convolution("hidden_channels", states, "narrow_channels", narrow)}
    for number, (height, width) in enumerate(kernels):
        # One name cannot stand for both sides of a kernel.
        enter, made = ("narrow_channels", "inner_channels") if number % 2 == 0 else ("inner_channels", "narrow_channels")
        found[f"{path}/kernel{number}"] = _convolution(enter, narrow, made, narrow, height=height, width=width)
    last = "inner_channels" if len(kernels) % 2 else "narrow_channels"
    found[f"{path}/widen"] = _convolution(last, narrow, "state_channels", states)
    return found


def _operation_tables(name: str, path: str, states: int) -> dict[str, Table]:
    """The convolutions of one operation; pooling has none."""
    match name:
        case "conv_1x1":
            return {path: _convolution("hidden_channels", states, "state_channels", states)}
        case "conv_3x3":
            return _bottleneck(path, states, (3, 3))
        case "conv_1x7_7x1":
            return _bottleneck(path, states, (1, 7), (7, 1))
    return {}


def _entry_tables(cell: Cell) -> dict[str, Table]:
    """What brings the outputs of the two cells before to the size and width of the states."""
    found = {f"{cell.path}/before": _convolution("channels", cell.before, "hidden_channels", cell.states)}
    if cell.reduced:
        for half in ("even", "odd"):
            weights, sizes = _convolution("channels", cell.earlier, "half_channels", cell.states // 2)
            found[f"{cell.path}/earlier/{half}"] = {"w": weights["w"]}, sizes
        found[f"{cell.path}/earlier/norm"] = {"scale": "hidden_channels", "bias": "hidden_channels"}, {"hidden_channels": cell.states}
    elif cell.earlier != cell.states:
        found[f"{cell.path}/earlier"] = _convolution("channels", cell.earlier, "hidden_channels", cell.states)
    return found


def tables(config: AmoebaNetConfig) -> dict[str, Table]:
    """Each convolution by its path."""
    made = config.filters // 4
    found = {"stem/0": _convolution("image_channels", config.image_channels, "channels", made, height=3, width=3)}
    for cell in cells(config):
        found |= _entry_tables(cell)
        for number, (_, name) in enumerate(cell.operations):
            found |= _operation_tables(name, f"{cell.path}/op{number}", cell.states)
        made = cell.made
    found["classify"] = {"w": "channels > classes", "bias": "classes"}, {"channels": made, "classes": config.classes}
    return found


def parameters(config: AmoebaNetConfig) -> int:
    """The number of parameters, from the sizes alone.

    >>> from workbench.models.amoebanet_cells import PRESETS
    >>> parameters(PRESETS["gpipe-18-208"])
    81505540
    """
    return sum(count_parameters(*table) for table in tables(config).values())


def dims(config: AmoebaNetConfig) -> dict[str, str]:
    """Path patterns to names, for parameters, optimiser state and batch."""
    named = {"batch/images": "batch height width image_channels", "batch/targets": "batch"}
    for path, (weights, _) in tables(config).items():
        named |= name_dims(weights, f"{path}/")
    return named


def init(key: Any, config: AmoebaNetConfig) -> Params:
    """The parameters: `stem` and `cells`, lists, and `classify`."""
    found: Params = {"stem": [{}, {}, {}], "cells": [{} for _ in range(config.cells + 2)], "classify": {}}
    for number, (path, table) in enumerate(tables(config).items()):
        room: Any = found
        for word in path.split("/"):
            room = room[int(word)] if isinstance(room, list) else room.setdefault(word, {})
        room.update(draw(jax.random.fold_in(key, number), *table, gain=2.0))
    return found
