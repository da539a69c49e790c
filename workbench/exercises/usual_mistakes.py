"""The usual mistakes in a number, recognised by how far it is off: bits for bytes, one way for both, all devices for one."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.exercises.quantities import BYTES, SECONDS, SHARE


@dataclass(frozen=True, slots=True)
class Mistake:
    """An answer that is `factor` times the right one, and what its author likely did. `units` are those of the questions that it is looked
    for in; empty for all."""

    factor: float
    hint: str
    units: tuple[str, ...] = ()


_KIB = 1024 / 1000
ALL_MISTAKES = (
    Mistake(8, "That is 8 times as much: bits where bytes are asked for?", (BYTES, SECONDS)),
    Mistake(1 / 8, "That is an eighth: were bytes divided by 8, as if they were bits?", (BYTES, SECONDS)),
    *(
        Mistake(_KIB**power, f"{big} has 1024 where {small} has 1000: the unit is the other one.", (BYTES,))
        for power, small, big in ((1, "kB", "KiB"), (2, "MB", "MiB"), (3, "GB", "GiB"), (4, "TB", "TiB"))
    ),
    *(
        Mistake(_KIB**-power, f"{big} has 1024 where {small} has 1000: the unit is the other one.", (BYTES,))
        for power, small, big in ((1, "kB", "KiB"), (2, "MB", "MiB"), (3, "GB", "GiB"), (4, "TB", "TiB"))
    ),
    Mistake(2, "That is twice as much: both directions of a link, a multiply-add as two, or two bytes where one is held?"),
    Mistake(1 / 2, "That is half: one direction for both, a multiply-add as one, or one byte where two are held?"),
    Mistake(3, "That is three times as much: the backward pass counted where only the forward pass is asked for?"),
    Mistake(1 / 3, "That is a third: the forward pass alone, where the backward pass takes twice as much again?"),
    Mistake(1e3, "That is a thousand times as much: ms for µs, or k for nothing?"),
    Mistake(1e-3, "That is a thousandth: µs for ms, or a k that is missing?"),
    Mistake(100, "That is a hundred times as much: per cent where a share is asked for?", (SHARE,)),
    Mistake(1 / 100, "That is a hundredth: a share where per cent is asked for?", (SHARE,)),
)


def list_mistakes(unit: str, devices: int = 0) -> Iterator[Mistake]:
    """Those that are looked for in a number of this unit; with `devices`, also what is of all of them or of one."""
    if devices > 1:
        yield Mistake(devices, f"That is {devices:,} times as much: of all devices, where one is asked for?")
        yield Mistake(1 / devices, f"That is one {devices:,}th: of one device, where all are asked for?")
        yield Mistake(
            devices / (devices - 1),
            f"That is {devices}/{devices - 1} of it: a device keeps its own part, and sends the other {devices - 1}.",
        )
        yield Mistake((devices - 1) / devices, f"That is {devices - 1}/{devices} of it: the device's own part counts, too.")
    yield from (each for each in ALL_MISTAKES if not each.units or unit in each.units)


def recognise(given: float, right: float, unit: str, tolerance: float, devices: int = 0) -> str:
    """What its author likely did, by the nearest factor; empty where none is within the tolerance."""
    if right == 0 or given == 0 or not math.isfinite(given):
        return ""
    if unit == SHARE and abs(given - (1 - right)) <= tolerance * abs(1 - right):
        return "That is the rest: 1 less the share that is asked for."
    if given / right < 0:
        return "The sign is the other one."
    nearest = min(list_mistakes(unit, devices), key=lambda each: abs(math.log(given / right / each.factor)))
    return nearest.hint if abs(given / right / nearest.factor - 1) <= min(tolerance, 0.01) else ""
