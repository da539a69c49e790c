"""The colours, readable on white and on near-black; colour is never the only distinction."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain

from workbench.core.mesh import Mesh
from workbench.core.sharding import base_axis

AXES = ("#3B5ED1", "#EE6E12", "#2CA586", "#AB2689", "#A77FF2", "#715F05")
"""Mesh axes, in order: contrast at least 3:1 on both backgrounds, distinct for all colour blindness (OKLab 0.125)."""

NEUTRAL = "#8B949E"
"""Unsharded, replicated, or sharded over several axes."""

TEXT = "#737C86"
"""Text: contrast about 4.2:1 on white and 4.5:1 on #0D1117, since a picture cannot know its background."""


ROLES = ("#3B5A8C", "#6F8BB8", "#A3B4CE", "#B8901C", "#5E9F8A", "#B5D8CB", "#86AAB8")
"""Tensor roles, in order: persistent state in blue, temporaries in gold, inputs and outputs in green."""

HEAT = ("#8B949E", "#C9A227", "#E08A1E", "#D9572B", "#B3203A")
"""Cost, from low (grey) over gold to high (crimson), each darker than the last; a number always accompanies it."""

STEP = ("#3B5A8C", "#6F8BB8", "#8B949E", "#B8901C", "#5B8C85")
"""Parts of the step time: arithmetic, memory traffic, launches, communication, elementwise work."""

TASKS = {"forward": "#3B5A8C", "backward": "#B8901C", "backward_input": "#B8901C", "backward_weight": "#E0CC8A", "update": "#5B8C85"}
"""Pipeline tasks by kind."""

WARNING = "#D1383F"
"""Warnings: contrast 4.6:1 on #FFFFFF and 4.0:1 on #0D1117."""


def ink_on(colour: str) -> str:
    """The text colour on a background: white or near-black, at least 3.4:1 on all colours of this module.

    >>> ink_on("#3B5A8C"), ink_on("#E0CC8A")
    ('#FFFFFF', '#1B1F24')
    """
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#FFFFFF" if 0.299 * red + 0.587 * green + 0.114 * blue < 137 else "#1B1F24"


_numbers: ContextVar[Mapping[str, int]] = ContextVar("numbers of axis colours", default={})  # noqa: B039 - never mutated


@contextmanager
def fixed_axis_colours(numbers: Mapping[str, int]) -> Iterator[None]:
    """Fix the colours of axes in this context, so that they do not change with an axis's index."""
    token = _numbers.set(numbers)
    try:
        yield
    finally:
        _numbers.reset(token)


def axis_colour(axis: str, mesh: Mesh) -> str:
    """The colour of a mesh axis or Shardy sub-axis: set by `fixed_axis_colours`, else by its index in the mesh.

    >>> axis_colour("model", Mesh("data:4 model:2"))
    '#EE6E12'
    """
    name = base_axis(axis)
    number = _numbers.get().get(name)
    return AXES[(mesh.names.index(name) if number is None else number) % len(AXES)]


def number_axes(meshes: Iterable[tuple[Mesh, Mapping[str, str]]], shown: Mesh) -> dict[str, int]:
    """The colour number of each axis of `shown`, stable when other axes are added, removed or reordered.

    `meshes` are the earlier meshes in order, each with its renamed axes (old name to new).

    >>> steps = [(Mesh("data:4 model:2"), {}), (Mesh("pipe:2 data:4 model:2"), {}), (Mesh("pipe:2 data:4 tensor:2"), {"model": "tensor"})]
    >>> number_axes(steps, steps[-1][0])
    {'pipe': 2, 'data': 0, 'tensor': 1}
    """
    numbers: dict[str, int] = {}
    for mesh, renamed in chain(meshes, [(shown, {})]):
        numbers.update({new: numbers[old] for old, new in renamed.items() if old in numbers})
        for name in mesh.names:
            if name not in numbers:
                numbers[name] = _free_number(numbers.values(), (numbers[other] for other in mesh.names if other in numbers))
    distinct: dict[str, int] = {}
    for name in sorted(shown.names, key=list(numbers).index):  # of two axes with one colour the older one keeps it
        distinct[name] = _free_number(distinct.values(), distinct.values()) if numbers[name] in distinct.values() else numbers[name]
    return {name: distinct[name] for name in shown.names}


def _free_number(ever: Iterable[int], now: Iterable[int]) -> int:
    ever, now = tuple(ever), tuple(now)
    return min(range(len(AXES)), key=lambda number: (now.count(number), ever.count(number), number))


def model_colour(number: int) -> str:
    """The colour of a model of a fleet by its number from 0; colours repeat."""
    return AXES[number % len(AXES)]


def axes_colour(axes: tuple[str, ...], mesh: Mesh) -> str:
    """The colour of a set of axes: that of its only axis, else neutral."""
    bases = {base_axis(axis) for axis in axes}
    return axis_colour(axes[0], mesh) if len(bases) == 1 else NEUTRAL
