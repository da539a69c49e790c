"""Gestures on a named dimension: its rule, its order of axes, its name, its user priority."""

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
    """Make one of the axes of a dimension the major one."""

    verb: ClassVar[str] = "major"
    dim: Needed
    axis: Needed


@dataclass(frozen=True, slots=True)
class WholeGesture(EditGesture):
    """Leave a dimension whole."""

    verb: ClassVar[str] = "whole"
    dim: Needed


@dataclass(frozen=True, slots=True)
class RenameDimGesture(EditGesture):
    """Rename a dimension."""

    verb: ClassVar[str] = "rename_dim"
    dim: Needed
    name: Needed


@dataclass(frozen=True, slots=True)
class PrioritizeGesture(EditGesture):
    """Set the user priority of a dimension's rule: the round in which it propagates; 0 is the first."""

    verb: ClassVar[str] = "prioritize"
    dim: Text200 = ""
    priority: Priority = field(kw_only=True)
