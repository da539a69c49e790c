"""Gestures on the view, the history of plans, plan files, runs and compilations."""

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


class TabGesture(Gesture, verb="open"):
    """Open a tab, or search it."""

    tab: Text = "tensors"
    search: Text200 = ""


class SelectGesture(Gesture):
    """Select an argument, value or collective, marked in every view, or deselect it."""

    path: PathText = ""


class FoldGesture(Gesture):
    """Fold or unfold the rows of equal layers."""

    key: PathText = ""


class WhyGesture(Gesture):
    """Ask a question; an empty text closes the answer."""

    of: PathText = ""


class StepGesture(Gesture):
    """Show a step of the propagation, by default the last."""

    step: Step = None


class WeighGesture(Gesture):
    """Try the edits of one conflict."""

    conflict: Text2000 = ""


class FewestGesture(Gesture):
    """Find a minimal layout with the same effect."""


class ExpandGesture(Gesture):
    """Open or close a scope of the graph."""

    scope: PathText = ""


class PictureGesture(Gesture):
    """Request the hidden forms of a picture, its text and the SVG of its charts, until another tab is opened."""

    name: PathText


class MomentGesture(Gesture):
    """Show the live values at a moment of the step; the same moment again shows the peak."""

    place: Text


class ShowStageGesture(Gesture):
    """Show one pipeline stage in every tab; an empty text shows all."""

    stage: Text = ""


class TryBoundaryGesture(Gesture):
    """Preview a dragged stage boundary, `PIECE PATH`; empty once it is dropped."""

    value: Value = ""


# Gestures on the history of plans: undo, redo, the tree and its comparisons.


class _ToolGesture(Gesture, verb="", refused_at="tools"):
    """A gesture of the toolbar, which shows its refusal."""


class UndoGesture(_ToolGesture):
    """Return to the previous plan."""


class RedoGesture(_ToolGesture):
    """Return to the undone plan."""


class HistoryGesture(_ToolGesture):
    """Open or close the history."""

    open: FlagUnlessFalse = True


class GoGesture(_ToolGesture):
    """Go to one of the plans."""

    number: PlanNumber


class NamePlanGesture(_ToolGesture):
    """Name one of the plans."""

    number: PlanNumber
    name: Text = ""


class PinGesture(_ToolGesture):
    """Pin or unpin one of the plans."""

    number: PlanNumber
    pinned: FlagUnlessFalse = True


class ComparePlansGesture(_ToolGesture):
    """Select a plan for comparison, or deselect it."""

    number: PlanNumber


class SwapPlansGesture(_ToolGesture):
    """Swap the two compared plans."""


class StopComparingGesture(_ToolGesture):
    """Close the comparison."""


# Import and export of plans: files, exports, links.


class _FileGesture(Gesture, verb="", refused_at="tools"):
    """A gesture of the toolbar, which shows its refusal."""


class SaveGesture(_FileGesture):
    """Save the plan; without a host file it is downloaded by the `view` that asked. `name` is its name in a gallery."""

    view: Text40 = ""
    name: Text = ""


class OpenFileGesture(_FileGesture):
    """Open a plan file; its text has a separate limit."""

    name: Text = ""
    text: FileText = None


class ExportGesture(_FileGesture):
    """Export the plan as code, by default in the first format, or as a file downloaded by the `view` that asked."""

    form: MaybeText = None
    view: Text40 = ""


class LinkGesture(_FileGesture):
    """Create a URL that contains the plan."""


class CloseSheetGesture(_FileGesture):
    """Close the export or link."""


# Gestures for runs and compilations, and gestures that only request an answer.


class RunGesture(Gesture):
    """Run the plan for a number of steps, as typed, or train a fleet."""

    steps: Text = ""


class CancelGesture(Gesture):
    """Cancel the run."""


class CompileGesture(Gesture):
    """Compile the plan for its hardware."""


class CancelCompilationGesture(Gesture):
    """Cancel the compilation."""


class CalibrateGesture(Gesture):
    """Measure the attached devices, and predict times for them if the plan names no hardware."""


class CancelCalibrationGesture(Gesture):
    """Cancel the calibration."""


class CompileAtRestGesture(Gesture):
    """Switch automatic compilation of plans left unchanged for a moment."""

    on: Flag = False


class DismissGesture(Gesture):
    """Dismiss a refusal, as any other gesture does too."""


class RefreshGesture(Gesture):
    """Request the state again after a missed message; answered before it is parsed."""
