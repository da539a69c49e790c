"""Constants of the cost model derived from compiled programs; `tuned_constants.toml` has their units and sources."""

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

TUNED_FILE = Path(__file__).with_name("tuned_constants.toml")


class TunedConstant(NamedTuple):
    """One constant; `measured`: compiler, version and chip; `by`: the script, the compiler's source, or `hand`."""

    value: float
    unit: str
    measured: str
    by: str


@cache
def load_tuned() -> dict[str, TunedConstant]:
    return {name: TunedConstant(**entry) for name, entry in tomllib.loads(TUNED_FILE.read_text(encoding="utf-8")).items()}


def tuned(name: str) -> float:
    """Return the value of a constant. Raises `KeyError` if it is not in the file.

    >>> tuned("on_chip_share")
    0.85
    """
    return load_tuned()[name].value
