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
    """Find a minimal layout with the same effect."""

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


# Gestures on the history of plans: undo, redo, the tree and its comparisons.


@dataclass(frozen=True, slots=True)
class _ToolGesture(Gesture):
    """A gesture of the toolbar, where its refusal is shown."""

    refused_at: ClassVar[str] = "tools"


@dataclass(frozen=True, slots=True)
class UndoGesture(_ToolGesture):
    """Go to the plan before."""

    verb: ClassVar[str] = "undo"


@dataclass(frozen=True, slots=True)
class RedoGesture(_ToolGesture):
    """Go to the plan that was undone."""

    verb: ClassVar[str] = "redo"


@dataclass(frozen=True, slots=True)
class HistoryGesture(_ToolGesture):
    """Open or close the history."""

    verb: ClassVar[str] = "history"
    open: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class GoGesture(_ToolGesture):
    """Go to one of the plans."""

    verb: ClassVar[str] = "go"
    number: PlanNumber


@dataclass(frozen=True, slots=True)
class NamePlanGesture(_ToolGesture):
    """Name one of the plans."""

    verb: ClassVar[str] = "name_plan"
    number: PlanNumber
    name: Text = ""


@dataclass(frozen=True, slots=True)
class PinGesture(_ToolGesture):
    """Pin or unpin one of the plans."""

    verb: ClassVar[str] = "pin"
    number: PlanNumber
    pinned: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class ComparePlansGesture(_ToolGesture):
    """Pick one of the plans for a comparison; picked again, it is removed."""

    verb: ClassVar[str] = "compare_plans"
    number: PlanNumber


@dataclass(frozen=True, slots=True)
class SwapPlansGesture(_ToolGesture):
    """Swap the two compared plans."""

    verb: ClassVar[str] = "swap_plans"


@dataclass(frozen=True, slots=True)
class StopComparingGesture(_ToolGesture):
    """Close the comparison."""

    verb: ClassVar[str] = "stop_comparing"


# Plans in and out of the board: files, exports, links.


@dataclass(frozen=True, slots=True)
class _FileGesture(Gesture):
    """A gesture of the toolbar, where its refusal is shown."""

    refused_at: ClassVar[str] = "tools"


@dataclass(frozen=True, slots=True)
class SaveGesture(_FileGesture):
    """Save the plan; where the host has no files, it is a download in the `view` that asked."""

    verb: ClassVar[str] = "save"
    view: Text40 = ""


@dataclass(frozen=True, slots=True)
class OpenFileGesture(_FileGesture):
    """Open the plan of a file; its text has a separate limit."""

    verb: ClassVar[str] = "open_file"
    name: Text = ""
    text: FileText = None


@dataclass(frozen=True, slots=True)
class ExportGesture(_FileGesture):
    """Export the plan as code, in one of the formats or the first of them; or as a file, a download in the `view` that asked."""

    verb: ClassVar[str] = "export"
    form: MaybeText = None
    view: Text40 = ""


@dataclass(frozen=True, slots=True)
class LinkGesture(_FileGesture):
    """Make a URL that contains the plan."""

    verb: ClassVar[str] = "link"


@dataclass(frozen=True, slots=True)
class CloseSheetGesture(_FileGesture):
    """Close the export or link."""

    verb: ClassVar[str] = "close_sheet"


# Gestures for runs and compilations; and those that only ask for an answer.


@dataclass(frozen=True, slots=True)
class RunGesture(Gesture):
    """Run the plan for so many steps, as the user typed them; or train a fleet."""

    verb: ClassVar[str] = "run"
    steps: Text = ""


@dataclass(frozen=True, slots=True)
class CancelGesture(Gesture):
    """Cancel the run."""

    verb: ClassVar[str] = "cancel"


@dataclass(frozen=True, slots=True)
class CompileGesture(Gesture):
    """Compile the plan for its hardware."""

    verb: ClassVar[str] = "compile"


@dataclass(frozen=True, slots=True)
class CancelCompilationGesture(Gesture):
    """Cancel the compilation."""

    verb: ClassVar[str] = "cancel_compilation"


@dataclass(frozen=True, slots=True)
class CalibrateGesture(Gesture):
    """Measure the attached devices, and predict times for them where the plan names no hardware."""

    verb: ClassVar[str] = "calibrate"


@dataclass(frozen=True, slots=True)
class CancelCalibrationGesture(Gesture):
    """Cancel the measuring of the attached devices."""

    verb: ClassVar[str] = "cancel_calibration"


@dataclass(frozen=True, slots=True)
class CompileAtRestGesture(Gesture):
    """Switch the automatic compilation of a plan that stays for a moment."""

    verb: ClassVar[str] = "compile_at_rest"
    on: Flag = False


@dataclass(frozen=True, slots=True)
class DismissGesture(Gesture):
    """Dismiss a refusal, which any gesture does as well."""

    verb: ClassVar[str] = "dismiss"


@dataclass(frozen=True, slots=True)
class RefreshGesture(Gesture):
    """The page has missed a message, and asks for the state again; answered before it is read."""

    verb: ClassVar[str] = "refresh"
