"""Gestures that change the view, and no plan."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import PathText, Step, Text, Text200, Text2000, Value
from workbench.widgets.gestures.gesture import Gesture


@dataclass(frozen=True, slots=True)
class TabGesture(Gesture):
    """Open a tab, or search it."""

    verb: ClassVar[str] = "open"
    tab: Text = "tensors"
    search: Text200 = ""


@dataclass(frozen=True, slots=True)
class SelectGesture(Gesture):
    """Select an argument, value or collective, marked in every view; selected again, it is deselected."""

    verb: ClassVar[str] = "select"
    path: PathText = ""


@dataclass(frozen=True, slots=True)
class FoldGesture(Gesture):
    """Fold or unfold the rows of equal layers."""

    verb: ClassVar[str] = "fold"
    key: PathText = ""


@dataclass(frozen=True, slots=True)
class WhyGesture(Gesture):
    """Ask a question, or with an empty text close the answer."""

    verb: ClassVar[str] = "why"
    of: PathText = ""


@dataclass(frozen=True, slots=True)
class StepGesture(Gesture):
    """Show a step of the propagation; without one, the last."""

    verb: ClassVar[str] = "step"
    step: Step = None


@dataclass(frozen=True, slots=True)
class WeighGesture(Gesture):
    """Try the edits of one conflict."""

    verb: ClassVar[str] = "weigh"
    conflict: Text2000 = ""


@dataclass(frozen=True, slots=True)
class FewestGesture(Gesture):
    """Find the fewest statements with the same effect."""

    verb: ClassVar[str] = "fewest"


@dataclass(frozen=True, slots=True)
class ExpandGesture(Gesture):
    """Open or close a scope of the graph."""

    verb: ClassVar[str] = "expand"
    scope: PathText = ""


@dataclass(frozen=True, slots=True)
class PictureGesture(Gesture):
    """Ask for the forms of a picture that are not shown: its text, and the SVG behind its charts. They come until another tab is opened."""

    verb: ClassVar[str] = "picture"
    name: PathText


@dataclass(frozen=True, slots=True)
class MomentGesture(Gesture):
    """Show what is alive at a moment of the step; the same again for the peak."""

    verb: ClassVar[str] = "moment"
    place: Text


@dataclass(frozen=True, slots=True)
class ShowStageGesture(Gesture):
    """Show one stage of the pipeline in every tab, or with an empty text all of them."""

    verb: ClassVar[str] = "show_stage"
    stage: Text = ""


@dataclass(frozen=True, slots=True)
class TryBoundaryGesture(Gesture):
    """A boundary between stages while it is dragged, `PIECE PATH`; empty once it is dropped."""

    verb: ClassVar[str] = "try_boundary"
    value: Value = ""
