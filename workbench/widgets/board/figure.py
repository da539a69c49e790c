"""One number of the head over the board."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the head.

    - `parts` of its bar, `apart` what is shown beside it and is no part of the figure, `limit` where the bar should end;
    - `tier` that it is of; `tiers`: the same number as compiled or measured;
    - `range`: within which nine of ten true ones lie; empty where it is settled, or nobody knows;
    - of every figure less is better, unless `more_is_better`.
    """

    key: str
    label: str
    value: float
    show: Callable[[float], str]
    title: str
    note: str = ""
    tone: str = ""
    parts: tuple[dict[str, Any], ...] = ()
    apart: dict[str, Any] | None = None
    limit: dict[str, Any] | None = None
    tier: str = ""
    range: str = ""
    tiers: tuple[dict[str, Any], ...] = ()
    more_is_better: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)  # what else an edit may add to or take away, by its name in the singular
