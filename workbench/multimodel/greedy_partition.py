"""Partition a model into shards that fit a device: greedily, each as large as possible (Hydra TR, section 4.3,
Algorithm 1).

The shards are deliberately not balanced: a shard is loaded and stored as a whole, so fewer shards mean fewer transfers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.errors import FleetError
from workbench.units import format_bytes


@dataclass(frozen=True, slots=True)
class Layer:
    """Memory of one layer on a device, in bytes.

    - `resident`: parameters, their gradients and optimizer state;
    - `residuals`: inputs of its backward pass, recomputed from the shard's input;
    - `input_activations`: inputs from earlier layers for one mini-batch, skip connections included.
    """

    name: str
    resident: int
    residuals: int
    input_activations: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """Memory of one device: `capacity` bytes, of which the fraction `buffer` is reserved for the next unit."""

    capacity: int
    buffer: float = 0.15

    @property
    def usable(self) -> int:
        """Bytes that a running unit may use."""
        return int(self.capacity * (1 - self.buffer))


Measure = Callable[[int, int], int]


def shard_bytes(layers: Sequence[Layer], begin: int, end: int) -> int:
    """Estimated bytes of the layers `begin` to `end - 1` as one shard."""
    shard = layers[begin:end]
    return (
        sum(layer.resident + layer.residuals for layer in shard)
        + shard[0].input_activations
        + (layers[end].input_activations if end < len(layers) else 0)
    )


def greedy_shards(layers: Sequence[Layer], rooms: Sequence[Room], measure: Measure | None = None) -> tuple[int, ...]:
    """Return the first layer of each shard: layers are added while the shard fits the device with the least memory.

    `measure(begin, end)` returns the compiled bytes of a shard and decides; the estimate only guides the search. Raises
    `FleetError` if a single layer does not fit.

    >>> greedy_shards([Layer(name, resident=30, residuals=10) for name in "abcde"], [Room(120, buffer=0.25)])
    (0, 2, 4)
    """
    room = min(rooms, key=lambda each: each.usable)
    need = measure or (lambda begin, end: shard_bytes(layers, begin, end))
    starts, begin = [0], 0
    while begin < len(layers):
        if (size := need(begin, begin + 1)) > room.usable:
            raise _too_large_error(layers[begin], size, room)
        guess = begin + 1
        while guess < len(layers) and shard_bytes(layers, begin, guess + 1) <= room.usable:
            guess += 1
        begin = _find_largest(begin + 1, len(layers), guess, lambda end, begin=begin: need(begin, end) <= room.usable)  # type: ignore[misc]
        starts.append(begin)
    return tuple(starts[:-1])


def _find_largest(least: int, most: int, guess: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number that fits, at least `least`; doubles and bisects from `guess` to save calls."""
    low, high = least, most + 1
    step, number = 1, guess
    while low < number < high:
        if fits(number):
            low, number = number, number + step
        else:
            high, number = number, number - step
        step *= 2
    while high - low > 1:
        number = (low + high) // 2
        low, high = (number, high) if fits(number) else (low, number)
    return low


def verify_shards(layers: Sequence[Layer], starts: Sequence[int], rooms: Sequence[Room], measure: Measure | None = None) -> tuple[int, ...]:
    """Return the given boundaries; raises `FleetError` with the shard and its bytes if one does not fit."""
    if list(starts) != sorted(set(starts)) or not starts or starts[0] != 0 or starts[-1] >= len(layers):
        raise FleetError(
            f"{list(starts)} are not valid cuts of {len(layers)} layers at.", [f"start at 0, ascend, and stay below {len(layers)}"]
        )
    room = min(rooms, key=lambda each: each.usable)
    need = measure or (lambda begin, end: shard_bytes(layers, begin, end))
    for begin, end in zip(starts, [*starts[1:], len(layers)], strict=True):
        if (size := need(begin, end)) > room.usable:
            raise FleetError(
                f"The shard of layers {begin} to {end - 1} (`{layers[begin].name}` to `{layers[end - 1].name}`) takes "
                f"{format_bytes(size)}; a device has {format_bytes(room.usable)} for it.",
                ["add a cut", "omit the cuts to choose them automatically"],
            )
    return tuple(starts)


def _too_large_error(layer: Layer, size: int, room: Room) -> FleetError:
    resident = min(layer.resident, size)  # the compiled size may be below the estimate
    return FleetError(
        f"Layer `{layer.name}` alone takes {format_bytes(size)} ({format_bytes(resident)} of parameters, gradients and optimizer state, "
        f"{format_bytes(size - resident)} of activations); a device has {format_bytes(room.usable)}: {format_bytes(room.capacity)} "
        f"less {room.buffer:.0%} for the buffer.",
        ["raise the memory budget", "make the mini-batch smaller", "cut the layer into smaller named scopes"],
    )
