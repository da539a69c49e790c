"""What a hand does with a named dimension: its rule, its order of axes, its name, the round in which its rule spreads."""

from dataclasses import dataclass, field
from typing import ClassVar

from workbench.widgets.gestures.fields import Flag, Needed, Priority, Text200
from workbench.widgets.gestures.gesture import EditGesture


@dataclass(frozen=True, slots=True)
class DropGesture(EditGesture):
    """A chip of zone `source` dropped on zone `target`; `""` is unsharded, and `add` keeps the axes it has."""

    verb: ClassVar[str] = "drop"
    refused_by: ClassVar[tuple[str, ...]] = ("target",)
    dim: Needed
    source: Needed
    target: Needed
    add: Flag = False


@dataclass(frozen=True, slots=True)
class MajorGesture(EditGesture):
    """One of the axes of a dimension made the first."""

    verb: ClassVar[str] = "major"
    dim: Needed
    axis: Needed


@dataclass(frozen=True, slots=True)
class WholeGesture(EditGesture):
    """A dimension left whole."""

    verb: ClassVar[str] = "whole"
    dim: Needed


@dataclass(frozen=True, slots=True)
class RenameDimGesture(EditGesture):
    """Another name for a dimension."""

    verb: ClassVar[str] = "rename_dim"
    dim: Needed
    name: Needed


@dataclass(frozen=True, slots=True)
class PrioritizeGesture(EditGesture):
    """The round in which the rule of a dimension spreads; 0 goes first."""

    verb: ClassVar[str] = "prioritize"
    dim: Text200 = ""
    priority: Priority = field(kw_only=True)
