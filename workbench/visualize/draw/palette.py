"""The colours of mesh axes and of everything else. All are readable on white and on near-black; colour is never the only distinction."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain

from workbench.core.mesh import Mesh
from workbench.core.sharding import base_axis

AXES = ("#3B5ED1", "#EE6E12", "#2CA586", "#AB2689", "#A77FF2", "#715F05")
"""Used for mesh axes in order: contrast at least 3:1 on #FFFFFF and #0D1117, and distinct for every kind of colour blindness (OKLab
distance 0.125)."""

NEUTRAL = "#8B949E"
"""Unsharded, replicated, or of several axes."""

TEXT = "#737C86"
"""About 4.2:1 on white and 4.5:1 on #0D1117: readable where a picture cannot know its background."""


ROLES = ("#3B5A8C", "#6F8BB8", "#A3B4CE", "#B8901C", "#5E9F8A", "#B5D8CB", "#86AAB8")
"""Used for the roles of tensors in order: what persists from step to step in blue, temporaries in gold, inputs and outputs in green."""

HEAT = ("#8B949E", "#C9A227", "#E08A1E", "#D9572B", "#B3203A")
"""Cost, from little to much: from grey over gold to crimson, darker and darker; always with the number beside it."""

STEP = ("#3B5A8C", "#6F8BB8", "#8B949E", "#B8901C", "#5B8C85")
"""The parts of a step's time: arithmetic, memory traffic, launches, communication; and elementwise work."""

TASKS = {
    "forward": "#3B5A8C",
    "backward": "#B8901C",
    "backward_input": "#B8901C",
    "backward_weight": "#E0CC8A",
    "update": "#5B8C85",
}
"""Tasks of a pipeline, by kind."""

WARNING = "#D1383F"
"""Warnings: contrast 4.6:1 on #FFFFFF and 4.0:1 on #0D1117."""


def ink_on(colour: str) -> str:
    """Text on a colour: white or near-black, at least 3.4:1 on all colours here.

    >>> ink_on("#3B5A8C"), ink_on("#E0CC8A")
    ('#FFFFFF', '#1B1F24')
    """
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#FFFFFF" if 0.299 * red + 0.587 * green + 0.114 * blue < 137 else "#1B1F24"


_numbers: ContextVar[Mapping[str, int]] = ContextVar("numbers of axis colours", default={})  # noqa: B039 - nobody changes it


@contextmanager
def axes_coloured(numbers: Mapping[str, int]) -> Iterator[None]:
    """Pictures made meanwhile give these axes these colours: on a board an axis keeps its colour although its index changes."""
    token = _numbers.set(numbers)
    try:
        yield
    finally:
        _numbers.reset(token)


def axis_colour(axis: str, mesh: Mesh) -> str:
    """The colour of a mesh axis or Shardy sub-axis: the one of its name (`axes_coloured`), else by its index in the mesh, never by its
    size.

    >>> axis_colour("model", Mesh("data:4 model:2"))
    '#EE6E12'
    """
    name = base_axis(axis)
    number = _numbers.get().get(name)
    return AXES[(mesh.names.index(name) if number is None else number) % len(AXES)]


def number_axes(meshes: Iterable[tuple[Mesh, Mapping[str, str]]], shown: Mesh) -> dict[str, int]:
    """The number of the colour of each axis of the mesh that is `shown`, after `meshes` in the order in which they were made, each with
    the axes that it renames (old name to new). An axis keeps its colour, also while others are added, removed or reordered.

    >>> steps = [(Mesh("data:4 model:2"), {}), (Mesh("pipe:2 data:4 model:2"), {}), (Mesh("pipe:2 data:4 tensor:2"), {"model": "tensor"})]
    >>> number_axes(steps, steps[-1][0])
    {'pipe': 2, 'data': 0, 'tensor': 1}
    """
    numbers: dict[str, int] = {}
    for mesh, renamed in chain(meshes, [(shown, {})]):
        numbers.update({new: numbers[old] for old, new in renamed.items() if old in numbers})
        for name in mesh.names:
            if name not in numbers:
                numbers[name] = _free_number(numbers.values(), (numbers[each] for each in mesh.names if each in numbers))
    found: dict[str, int] = {}
    for name in sorted(shown.names, key=list(numbers).index):  # two that met late: the older one keeps its colour
        found[name] = _free_number(found.values(), found.values()) if numbers[name] in found.values() else numbers[name]
    return {name: found[name] for name in shown.names}


def _free_number(ever: Iterable[int], now: Iterable[int]) -> int:
    """A colour that no axis ever had, else one that none of the mesh has, else the one that the fewest have."""
    ever, now = tuple(ever), tuple(now)
    return min(range(len(AXES)), key=lambda number: (now.count(number), ever.count(number), number))


def model_colour(number: int) -> str:
    """The colour of a model of a fleet: by its number, from 0; they begin again after the last."""
    return AXES[number % len(AXES)]


def axes_colour(axes: tuple[str, ...], mesh: Mesh) -> str:
    """The colour of a set of axes: a single one's own, else neutral."""
    bases = {base_axis(axis) for axis in axes}
    return axis_colour(axes[0], mesh) if len(bases) == 1 else NEUTRAL
