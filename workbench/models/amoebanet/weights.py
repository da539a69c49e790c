"""The cells of an AmoebaNet-D, which weights each has, what their dimensions are called, and how they are drawn."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from workbench.models.amoebanet.config import JOINED, NORMAL, REDUCTION, AmoebaNetConfig
from workbench.models.layers.weights import Params, count_parameters, draw, name_dims

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

    >>> from workbench.models.amoebanet.config import PRESETS
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
