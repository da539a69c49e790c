"""The nouns of a product that is taken apart: its dimensions, its tensors within a group of devices, what is sent."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from workbench.partition.xla_groups import Groups
from workbench.partition.xla_reshard import Step
from workbench.partition.xla_tiles import Devices

LEFT, RIGHT, RESULT = 0, 1, 2


class Shared(NamedTuple):
    """A dimension of the product: which one it is of the left operand, the right one and the result, -1 where it is none."""

    left: int
    right: int
    result: int


class Mapping(NamedTuple):
    """The dimensions of a product by kind; `spatial` are those that a convolution's windows move along."""

    batch: tuple[Shared, ...]
    summed: tuple[Shared, ...]
    rows: tuple[Shared, ...]  # of the left operand and the result
    columns: tuple[Shared, ...]  # of the right operand and the result
    spatial: tuple[Shared, ...] = ()

    def between(self, one: int, other: int, rank: int) -> list[int]:
        """For each dimension of the one, which it is of the other."""
        found = [-1] * rank
        for shared in (each for kind in self for each in kind):
            if shared[one] >= 0:
                found[shared[one]] = shared[other]
        return found


class Sent(NamedTuple):
    """A move of an operand, or of the result: see `xla_reshard.Step`. Equal moves of one value, after equal ones, have one `key`. Of the
    first moves, among all devices, `whole` are the dimensions that it makes whole, if that is all it does, and `target` where it goes."""

    step: Step
    operand: int
    key: tuple[object, ...]
    whole: tuple[int, ...] = ()
    target: tuple[object, ...] = ()


class Product(NamedTuple):
    """What is sent, and the share of the whole product that each device computes."""

    sent: tuple[Sent, ...]
    share: float


class Operand(NamedTuple):
    """An operand within a group of devices: its shape there, and the moves it has made."""

    number: int
    shape: tuple[int, ...]
    tiles: Devices
    path: tuple[object, ...] = ()

    @property
    def local(self) -> tuple[int, ...]:
        return tuple(-(-size // parts) for size, parts in zip(self.shape, self.tiles.shape[:-1], strict=True))


class Target(NamedTuple):
    """The result within a group of devices."""

    shape: tuple[int, ...]
    tiles: Devices


Leaf = Callable[[Operand, Operand], None]


class Task(NamedTuple):
    """A product within groups of devices: `devices` maps the numbers in tiles to those of the mesh, a row a group; `leaf` is told what a
    device multiplies in the end."""

    left: Operand
    right: Operand
    result: Target
    devices: Devices
    leaf: Leaf


def are_equal(one: Devices | None, other: Devices) -> bool:
    return one is not None and np.array_equal(one, other)


def there(tiles: Devices | None) -> Devices:
    """Where the conditions that were asked before say that there is one."""
    if tiles is None:
        raise ValueError("this dimension is cut, and the other tensor has none such")
    return tiles


def in_group(operand: Operand, groups: Groups) -> Operand:
    return operand._replace(shape=groups.shape(operand.shape), tiles=groups.inner)


def inside(devices: Devices, groups: Groups) -> Devices:
    """The devices of each group, a row for each within each row."""
    return devices[:, groups.members].reshape(-1, groups.members.shape[1])


def alike(shape: tuple[int, ...], count: int) -> Devices:
    """All of `count` devices hold the whole value."""
    return np.arange(count).reshape([1] * len(shape) + [-1])
