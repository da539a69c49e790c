"""A key figure at the top of the board."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One key figure.

    - `parts` of its bar; `apart`: what is shown beside it and is no part of the figure; `limit`: where the bar should end;
    - `tier` of the figure; `tiers`: the same number as compiled or measured;
    - `range`: the interval that holds nine of ten true figures; empty where it is settled or unknown;
    - less is better, unless `more_is_better`.
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
    counts: Mapping[str, int] = field(default_factory=dict)  # other items that an edit may add or remove, by the singular of their name
