"""A chart to explore: a Bokeh figure that is empty, made once, and what fills it.

Making a figure and writing it as JSON takes a tenth of a second, filling it a few milliseconds: so the empty figure of a kind is kept, and
a page that shows one already is sent only what fills it.
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
    """A colour, none for a remark, and what it stands for; `hatched` where it is hatched."""

    colour: str
    name: str
    hatched: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Chart:
    """What fills a figure, each part by the name of the model that it belongs to.

    - `make(*settings)`: a new, empty figure;
    - `sources`: the columns of each data source. In one named `marks`, each row may be pointed at: `title` says what it is, `subject` is
      the path that it selects, `opens` what a click opens;
    - `ranges`: the whole extent of `x` and `y`;
    - `properties`: other properties of models;
    - `key`: colours and what they stand for;
    - `logs`: whether x and y are logarithmic;
    - `across`: the quantity along x, with its unit: while it stays, so does what a person zoomed to;
    - `rescales`: whether tiers that are far from each other are drawn on scales of their own until somebody says otherwise;
    - `spans`: of a timeline, from which the front end draws those that can be seen, all in the styles of the first.
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
        """The names of lanes by their places on the y axis, where it has no numbers."""
        return self.properties.get("y axis", {}).get("major_label_overrides", {})

    @property
    def state(self) -> dict[str, Any]:
        """The chart as JSON: the empty figure as Bokeh writes it, and what fills it."""
        return {
            **empty_figure(self.make, self.settings),
            "sources": self.sources,
            "ranges": {name: list(ends) for name, ends in self.ranges.items()},
            "properties": plain_properties(self.properties),
            "key": [list(each) for each in self.key],
            "across": self.across,
            "rescales": self.rescales,
            "spans": [each.state for each in self.spans],
        }


def columns_of(rows: Sequence[tuple[Any, ...]], names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Rows as the columns of a data source."""
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def plain_properties(properties: Mapping[str, Mapping[str, Any]]) -> Any:
    """As JSON, where a number that is a key is a text."""
    return json.loads(json.dumps(properties))


@cache
def empty_figure(make: Maker, settings: tuple[Any, ...]) -> dict[str, Any]:
    """An empty figure: `item` as `Bokeh.embed.embed_item` takes it, the `version` of Bokeh that it is for, and an `id` of what it is."""
    from bokeh import __version__
    from bokeh.embed import json_item

    item = json.loads(json.dumps(json_item(make(*settings))))
    name = json.dumps([make.__module__, make.__name__, __version__, settings], default=str)
    return {"item": item, "version": __version__, "id": hashlib.sha256(name.encode()).hexdigest()[:16]}


def bokeh_script() -> str:
    """BokehJS as the installed Bokeh has it, for a page that has none: no other server is asked."""
    import bokeh

    return (Path(bokeh.__file__).parent / "server" / "static" / "js" / "bokeh.min.js").read_text(encoding="utf-8")


# The unit that an axis is written in: one for all its values, so that its ticks are plain numbers at every zoom.

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")


class AxisUnit(NamedTuple):
    """`size` in the base unit (seconds, bytes, FLOP/s) is 1 on the axis."""

    size: float
    name: str


def seconds_unit(longest: float) -> AxisUnit:
    """
    >>> seconds_unit(0.25), seconds_unit(0.0)
    (AxisUnit(size=0.001, name='ms'), AxisUnit(size=1e-06, name='µs'))
    """
    return AxisUnit(*next((each for each in _SECONDS if longest >= each[0]), _SECONDS[-1]))


def bytes_unit(most: float) -> AxisUnit:
    """
    >>> bytes_unit(3 * 1024**3)
    AxisUnit(size=1073741824.0, name='GiB')
    """
    power = min(max((int(most).bit_length() - 1) // 10, 0), len(_BINARY) - 1)
    return AxisUnit(1024.0**power, _BINARY[power])


def count_unit(most: float, of: str) -> AxisUnit:
    """
    >>> count_unit(197e12, "FLOP/s")
    AxisUnit(size=1000000000000.0, name='TFLOP/s')
    """
    power = 0
    while most >= 1000.0 ** (power + 1) and power < len(_DECIMAL) - 1:
        power += 1
    return AxisUnit(1000.0**power, f"{_DECIMAL[power]}{of}")
