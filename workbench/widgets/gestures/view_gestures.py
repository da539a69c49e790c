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

# Gestures that change the view, and no plan.


@dataclass(frozen=True, slots=True)
class TabGesture(Gesture):
    """Open a tab, or search it."""

    verb: ClassVar[str] = "open"
    tab: Text = "tensors"
    search: Text200 = ""


@dataclass(frozen=True, slots=True)
class SelectGesture(Gesture):
    """Select an argument, value or collective, marked in every view; selected again, it is deselected."""

    path: PathText = ""


@dataclass(frozen=True, slots=True)
class FoldGesture(Gesture):
    """Fold or unfold the rows of equal layers."""

    key: PathText = ""


@dataclass(frozen=True, slots=True)
class WhyGesture(Gesture):
    """Ask a question, or with an empty text close the answer."""

    of: PathText = ""


@dataclass(frozen=True, slots=True)
class StepGesture(Gesture):
    """Show a step of the propagation; without one, the last."""

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
    """Ask for the forms of a picture that are not shown: its text, and the SVG behind its charts. They come until another tab is opened."""

    name: PathText


@dataclass(frozen=True, slots=True)
class MomentGesture(Gesture):
    """Show what is alive at a moment of the step; the same again for the peak."""

    place: Text


@dataclass(frozen=True, slots=True)
class ShowStageGesture(Gesture):
    """Show one stage of the pipeline in every tab, or with an empty text all of them."""

    stage: Text = ""


@dataclass(frozen=True, slots=True)
class TryBoundaryGesture(Gesture):
    """A boundary between stages while it is dragged, `PIECE PATH`; empty once it is dropped."""

    value: Value = ""


# Gestures on the history of plans: undo, redo, the tree and its comparisons.


@dataclass(frozen=True, slots=True)
class _ToolGesture(Gesture):
    """A gesture of the toolbar, where its refusal is shown."""

    refused_at: ClassVar[str] = "tools"


@dataclass(frozen=True, slots=True)
class UndoGesture(_ToolGesture):
    """Go to the plan before."""


@dataclass(frozen=True, slots=True)
class RedoGesture(_ToolGesture):
    """Go to the plan that was undone."""


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
    """Pick one of the plans for a comparison; picked again, it is removed."""

    number: PlanNumber


@dataclass(frozen=True, slots=True)
class SwapPlansGesture(_ToolGesture):
    """Swap the two compared plans."""


@dataclass(frozen=True, slots=True)
class StopComparingGesture(_ToolGesture):
    """Close the comparison."""


# Plans in and out of the board: files, exports, links.


@dataclass(frozen=True, slots=True)
class _FileGesture(Gesture):
    """A gesture of the toolbar, where its refusal is shown."""

    refused_at: ClassVar[str] = "tools"


@dataclass(frozen=True, slots=True)
class SaveGesture(_FileGesture):
    """Save the plan; where the host has no files, it is a download in the `view` that asked."""

    view: Text40 = ""


@dataclass(frozen=True, slots=True)
class OpenFileGesture(_FileGesture):
    """Open the plan of a file; its text has a separate limit."""

    name: Text = ""
    text: FileText = None


@dataclass(frozen=True, slots=True)
class ExportGesture(_FileGesture):
    """Export the plan as code, in one of the formats or the first of them; or as a file, a download in the `view` that asked."""

    form: MaybeText = None
    view: Text40 = ""


@dataclass(frozen=True, slots=True)
class LinkGesture(_FileGesture):
    """Make a URL that contains the plan."""


@dataclass(frozen=True, slots=True)
class CloseSheetGesture(_FileGesture):
    """Close the export or link."""


# Gestures for runs and compilations; and those that only ask for an answer.


@dataclass(frozen=True, slots=True)
class RunGesture(Gesture):
    """Run the plan for so many steps, as the user typed them; or train a fleet."""

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
    """Measure the attached devices, and predict times for them where the plan names no hardware."""


@dataclass(frozen=True, slots=True)
class CancelCalibrationGesture(Gesture):
    """Cancel the measuring of the attached devices."""


@dataclass(frozen=True, slots=True)
class CompileAtRestGesture(Gesture):
    """Switch the automatic compilation of a plan that stays for a moment."""

    on: Flag = False


@dataclass(frozen=True, slots=True)
class DismissGesture(Gesture):
    """Dismiss a refusal, which any gesture does as well."""


@dataclass(frozen=True, slots=True)
class RefreshGesture(Gesture):
    """The page has missed a message, and asks for the state again; answered before it is read."""
