"""Interactive charts: an empty Bokeh figure, cached by kind, and the data that fills it.

Creating a figure and serializing it to JSON takes 0.1 s, filling it a few milliseconds. A page that already shows a
chart therefore receives only the data.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from workbench.visualize.charts.packed_spans import PackedSpans

Columns = Mapping[str, Sequence[Any]]
Maker = Callable[..., Any]


class KeyEntry(NamedTuple):
    """A legend entry; `colour` is empty for a remark."""

    colour: str
    name: str
    hatched: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Chart:
    """The data of a figure, by the names of its models.

    - `make(*settings)`: a new, empty figure;
    - `sources`: the columns of each data source. Rows of `marks` react to the pointer: `title` is the tooltip,
      `subject` the path that it selects, `opens` the key that a click opens;
    - `ranges`: the full extent of `x` and `y`;
    - `properties`: other properties of models;
    - `key`: the legend;
    - `logs`: whether x and y are logarithmic;
    - `across`: the quantity and unit along x; the user's zoom is kept until it changes;
    - `rescales`: whether tiers of very different duration get separate scales by default;
    - `spans`: the spans of a timeline; the front end draws the visible ones, all in the styles of the first.
    """

    make: Maker
    settings: tuple[Any, ...]
    sources: Mapping[str, Columns]
    ranges: Mapping[str, tuple[float, float]]
    properties: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    key: tuple[KeyEntry, ...] = ()
    across: str = ""
    rescales: bool = False
    spans: tuple[PackedSpans, ...] = ()
    logs: tuple[bool, bool] = (False, False)

    @property
    def lanes(self) -> Mapping[float, str]:
        """The names of lanes by y position; empty if the y axis is numeric."""
        return self.properties.get("y axis", {}).get("major_label_overrides", {})

    @property
    def state(self) -> dict[str, Any]:
        """The chart as JSON: the empty figure as serialized by Bokeh, and its data."""
        return {
            **empty_figure(self.make, self.settings),
            "sources": self.sources,
            "ranges": {name: list(ends) for name, ends in self.ranges.items()},
            "properties": plain_properties(self.properties),
            "key": [list(item) for item in self.key],
            "across": self.across,
            "rescales": self.rescales,
            "spans": [item.state for item in self.spans],
        }


def columns_of(rows: Sequence[tuple[Any, ...]], names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Transpose rows to the columns of a data source."""
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def plain_properties(properties: Mapping[str, Mapping[str, Any]]) -> Any:
    """Properties as JSON, where numeric keys become strings."""
    return json.loads(json.dumps(properties))


@cache
def empty_figure(make: Maker, settings: tuple[Any, ...]) -> dict[str, Any]:
    """An empty figure: `item` for `Bokeh.embed.embed_item`, the `version` of Bokeh, and an `id` of its content."""
    from bokeh import __version__
    from bokeh.embed import json_item

    item = json.loads(json.dumps(json_item(make(*settings))))
    name = json.dumps([make.__module__, make.__name__, __version__, settings], default=str)
    return {"item": item, "version": __version__, "id": hashlib.sha256(name.encode()).hexdigest()[:16]}


def bokeh_script() -> str:
    """BokehJS of the installed Bokeh, for pages without it, so that no other server is contacted."""
    import bokeh

    return (Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.min.js").read_text(encoding="utf-8")


# The unit of an axis, one for all its values, so that its ticks are plain numbers at every zoom.

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")


class AxisUnit(NamedTuple):
    """A unit of an axis; `size` is its value in the base unit (seconds, bytes, FLOP/s)."""

    size: float
    name: str


def seconds_unit(longest: float) -> AxisUnit:
    """The unit for an axis of times up to `longest` seconds.

    >>> seconds_unit(0.25), seconds_unit(0.0)
    (AxisUnit(size=0.001, name='ms'), AxisUnit(size=1e-06, name='µs'))
    """
    return AxisUnit(*next((unit for unit in _SECONDS if longest >= unit[0]), _SECONDS[-1]))


def bytes_unit(most: float) -> AxisUnit:
    """The unit for an axis of up to `most` bytes.

    >>> bytes_unit(3 * 1024**3)
    AxisUnit(size=1073741824.0, name='GiB')
    """
    power = min(max((int(most).bit_length() - 1) // 10, 0), len(_BINARY) - 1)
    return AxisUnit(1024.0**power, _BINARY[power])


def count_unit(most: float, of: str) -> AxisUnit:
    """The decimal unit for an axis of up to `most`, in the base unit `of`.

    >>> count_unit(197e12, "FLOP/s")
    AxisUnit(size=1000000000000.0, name='TFLOP/s')
    """
    power = 0
    while most >= 1000.0 ** (power + 1) and power < len(_DECIMAL) - 1:
        power += 1
    return AxisUnit(1000.0**power, f"{_DECIMAL[power]}{of}")
