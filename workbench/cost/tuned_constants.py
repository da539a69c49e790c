"""Constants of the cost model that were read off compiled programs: `tuned_constants.toml` says of each what it counts, what it was read
off, and by what."""

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

TUNED_FILE = Path(__file__).with_name("tuned_constants.toml")


class TunedConstant(NamedTuple):
    """One entry: `measured` is the compiler, its version and the chip; `by` the script, the compiler's source, or `hand`."""

    value: float
    unit: str
    measured: str
    by: str


@cache
def load_tuned() -> dict[str, TunedConstant]:
    """All entries by name."""
    return {name: TunedConstant(**entry) for name, entry in tomllib.loads(TUNED_FILE.read_text(encoding="utf-8")).items()}


def tuned(name: str) -> float:
    """The value of one constant; raises `KeyError` for a name that is not in the file.

    >>> tuned("on_chip_share")
    0.85
    """
    return load_tuned()[name].value
