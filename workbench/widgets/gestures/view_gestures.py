"""Gestures on the view, the history of plans, plan files, runs and compilations."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.gesture import (
    FileText,
    Flag,
    FlagUnlessFalse,
    Gesture,
    MaybeText,
    PathText,
    PlanNumber,
    Step,
    Text,
    Text40,
    Text200,
    Text2000,
    Value,
)

# Gestures that change only the view.


@dataclass(frozen=True, slots=True)
class TabGesture(Gesture):
    """Open a tab, or search it."""

    verb: ClassVar[str] = "open"
    tab: Text = "tensors"
    search: Text200 = ""


@dataclass(frozen=True, slots=True)
class SelectGesture(Gesture):
    """Select an argument, value or collective, marked in every view, or deselect it."""

    path: PathText = ""


@dataclass(frozen=True, slots=True)
class FoldGesture(Gesture):
    """Fold or unfold the rows of equal layers."""

    key: PathText = ""


@dataclass(frozen=True, slots=True)
class WhyGesture(Gesture):
    """Ask a question; an empty text closes the answer."""

    of: PathText = ""


@dataclass(frozen=True, slots=True)
class StepGesture(Gesture):
    """Show a step of the propagation, by default the last."""

    step: Step = None


@dataclass(frozen=True, slots=True)
class WeighGesture(Gesture):
    """Try the edits of one conflict."""

    conflict: Text2000 = ""


@dataclass(frozen=True, slots=True)
class FewestGesture(Gesture):
    """Find a minimal layout with the same effect."""


@dataclass(frozen=True, slots=True)
class ExpandGesture(Gesture):
    """Open or close a scope of the graph."""

    scope: PathText = ""


@dataclass(frozen=True, slots=True)
class PictureGesture(Gesture):
    """Request the hidden forms of a picture, its text and the SVG of its charts, until another tab is opened."""

    name: PathText


@dataclass(frozen=True, slots=True)
class MomentGesture(Gesture):
    """Show the live values at a moment of the step; the same moment again shows the peak."""

    place: Text


@dataclass(frozen=True, slots=True)
class ShowStageGesture(Gesture):
    """Show one pipeline stage in every tab; an empty text shows all."""

    stage: Text = ""


@dataclass(frozen=True, slots=True)
class TryBoundaryGesture(Gesture):
    """Preview a dragged stage boundary, `PIECE PATH`; empty once it is dropped."""

    value: Value = ""


# Gestures on the history of plans: undo, redo, the tree and its comparisons.


@dataclass(frozen=True, slots=True)
class _ToolGesture(Gesture):
    """A gesture of the toolbar, which shows its refusal."""

    refused_at: ClassVar[str] = "tools"


@dataclass(frozen=True, slots=True)
class UndoGesture(_ToolGesture):
    """Return to the previous plan."""


@dataclass(frozen=True, slots=True)
class RedoGesture(_ToolGesture):
    """Return to the undone plan."""


@dataclass(frozen=True, slots=True)
class HistoryGesture(_ToolGesture):
    """Open or close the history."""

    open: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class GoGesture(_ToolGesture):
    """Go to one of the plans."""

    number: PlanNumber


@dataclass(frozen=True, slots=True)
class NamePlanGesture(_ToolGesture):
    """Name one of the plans."""

    number: PlanNumber
    name: Text = ""


@dataclass(frozen=True, slots=True)
class PinGesture(_ToolGesture):
    """Pin or unpin one of the plans."""

    number: PlanNumber
    pinned: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class ComparePlansGesture(_ToolGesture):
    """Select a plan for comparison, or deselect it."""

    number: PlanNumber


@dataclass(frozen=True, slots=True)
class SwapPlansGesture(_ToolGesture):
    """Swap the two compared plans."""


@dataclass(frozen=True, slots=True)
class StopComparingGesture(_ToolGesture):
    """Close the comparison."""


# Import and export of plans: files, exports, links.


@dataclass(frozen=True, slots=True)
class _FileGesture(Gesture):
    """A gesture of the toolbar, which shows its refusal."""

    refused_at: ClassVar[str] = "tools"


@dataclass(frozen=True, slots=True)
class SaveGesture(_FileGesture):
    """Save the plan; without a host file it is downloaded by the `view` that asked. `name` is its name in a gallery."""

    view: Text40 = ""
    name: Text = ""


@dataclass(frozen=True, slots=True)
class OpenFileGesture(_FileGesture):
    """Open a plan file; its text has a separate limit."""

    name: Text = ""
    text: FileText = None


@dataclass(frozen=True, slots=True)
class ExportGesture(_FileGesture):
    """Export the plan as code, by default in the first format, or as a file downloaded by the `view` that asked."""

    form: MaybeText = None
    view: Text40 = ""


@dataclass(frozen=True, slots=True)
class LinkGesture(_FileGesture):
    """Create a URL that contains the plan."""


@dataclass(frozen=True, slots=True)
class CloseSheetGesture(_FileGesture):
    """Close the export or link."""


# Gestures for runs and compilations, and gestures that only request an answer.


@dataclass(frozen=True, slots=True)
class RunGesture(Gesture):
    """Run the plan for a number of steps, as typed, or train a fleet."""

    steps: Text = ""


@dataclass(frozen=True, slots=True)
class CancelGesture(Gesture):
    """Cancel the run."""


@dataclass(frozen=True, slots=True)
class CompileGesture(Gesture):
    """Compile the plan for its hardware."""


@dataclass(frozen=True, slots=True)
class CancelCompilationGesture(Gesture):
    """Cancel the compilation."""


@dataclass(frozen=True, slots=True)
class CalibrateGesture(Gesture):
    """Measure the attached devices, and predict times for them if the plan names no hardware."""


@dataclass(frozen=True, slots=True)
class CancelCalibrationGesture(Gesture):
    """Cancel the calibration."""


@dataclass(frozen=True, slots=True)
class CompileAtRestGesture(Gesture):
    """Switch automatic compilation of plans left unchanged for a moment."""

    on: Flag = False


@dataclass(frozen=True, slots=True)
class DismissGesture(Gesture):
    """Dismiss a refusal, as any other gesture does too."""


@dataclass(frozen=True, slots=True)
class RefreshGesture(Gesture):
    """Request the state again after a missed message; answered before it is parsed."""
