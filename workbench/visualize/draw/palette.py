"""The colours of mesh axes and of everything else. All are readable on white and on near-black; colour is never the only distinction."""

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

ON_ROLES = ("#FFFFFF", "#FFFFFF", "#1B1F24", "#1B1F24", "#1B1F24", "#1B1F24", "#1B1F24")
"""Text upon them, at least 3.4:1."""

STEP = ("#3B5A8C", "#6F8BB8", "#8B949E", "#B8901C", "#5B8C85")
"""The parts of a step's time: arithmetic, memory traffic, launches, communication; and elementwise work."""

TASKS = {
    "forward": ("#3B5A8C", "#FFFFFF"),
    "backward": ("#B8901C", "#1B1F24"),
    "backward_input": ("#B8901C", "#1B1F24"),
    "backward_weight": ("#E0CC8A", "#1B1F24"),
    "update": ("#5B8C85", "#FFFFFF"),
}
"""Tasks of a pipeline and the text upon them, by kind."""

WARNING = "#D1383F"
"""Warnings: contrast 4.6:1 on #FFFFFF and 4.0:1 on #0D1117."""


def axis_colour(axis: str, mesh: Mesh) -> str:
    """The colour of a mesh axis or Shardy sub-axis: by its index in the mesh, never by its size.

    >>> axis_colour("model", Mesh("data:4 model:2"))
    '#EE6E12'
    """
    return AXES[mesh.names.index(base_axis(axis)) % len(AXES)]


def model_colour(number: int) -> str:
    """The colour of a model of a fleet: by its number, from 0; they begin again after the last."""
    return AXES[number % len(AXES)]


def axes_colour(axes: tuple[str, ...], mesh: Mesh) -> str:
    """The colour of a set of axes: a single one's own, else neutral."""
    bases = {base_axis(axis) for axis in axes}
    return axis_colour(axes[0], mesh) if len(bases) == 1 else NEUTRAL
