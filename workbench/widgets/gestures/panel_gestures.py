"""Gestures of the panels beside the board: exercise, search, fleet."""

from workbench.widgets.gestures.gesture import TABLES, FileText, Flag, Gesture, Text20, Text40, Text80, Text200

# Gestures of an exercise on the board.


class _ExerciseGesture(Gesture, verb="", refused_at="exercise"):
    """A gesture whose refusal is shown in the exercise."""


class QuestionGesture(_ExerciseGesture):
    """Show one of the questions."""

    name: Text80 = ""


class StartQuestionGesture(_ExerciseGesture):
    """Load the start plan of the question on the board."""


class AnswerGesture(_ExerciseGesture, verb="answer_question"):
    """Answer the question with the plan on the board or with a text."""

    answer: Text200 = ""


# Gestures of the search for a plan, with text as the user typed it, and of the plans found.


class FindGesture(Gesture, refused_at=TABLES):
    """Search for plans; empty texts leave a choice open."""

    on: Text80 = ""
    objective: Text20 = "seconds"
    limit: Text80 = ""
    within: Text20 = "30"
    until: Text20 = "complete"
    axes: Text200 = ""
    stages: Text80 = ""
    schedule: Text40 = ""
    micro_batches: Text80 = ""
    layout: Text200 = ""
    zero: Text20 = ""
    remat: Text20 = ""
    keep: Flag = False
    wide: Flag = False
    precision: Text80 = ""
    offload: Text40 = ""
    boundaries: Text20 = ""


class StopFindingGesture(Gesture, refused_at=TABLES):
    """Stop the search and keep its results."""


class ChooseFoundGesture(Gesture, refused_at=TABLES):
    """Select a found plan by number, or deselect it."""

    plan: Text20 = ""


class TakeFoundGesture(Gesture, refused_at=TABLES):
    """Make a found plan the present plan."""

    plan: Text20 = ""


class ExplainFoundGesture(Gesture, refused_at=TABLES):
    """Explain a found plan: the ledger from plan `than`, and the effect of each decision."""

    plan: Text20 = ""
    than: Text20 = ""


class VerifyFoundGesture(Gesture, refused_at=TABLES):
    """Verify a found plan with XLA's partitioner and the compiler."""

    plan: Text20 = ""


class StopVerifyingGesture(Gesture, refused_at=TABLES):
    """Stop verifying and keep the answers."""


class RelaxGesture(Gesture, refused_at=TABLES):
    """Search again with one conflicting requirement relaxed, given by its index."""

    place: Text20 = ""


class PinChoiceGesture(Gesture, refused_at=TABLES):
    """Search again with one decision pinned to that of the present plan."""

    decision: Text20 = ""


# Gestures on the board of a fleet.


class FleetGesture(Gesture, verb=""):
    """A control of the fleet; `value` is the user's choice or text."""

    value: Text200 = ""


class PolicyGesture(FleetGesture):
    """Choose a policy."""


class MemoryGesture(FleetGesture):
    """Set the memory budget of each device; empty for all memory."""


class BudgetGesture(FleetGesture):
    """Double the budget (`more`), or halve it."""


class DevicesGesture(FleetGesture):
    """Set the number of devices."""


class FleetHardwareGesture(FleetGesture):
    """Set the hardware of the fleet; empty for the attached devices."""


class TimeUnitsGesture(FleetGesture, verb="time"):
    """Time the units on this machine."""


class CancelTimingGesture(FleetGesture):
    """Cancel the timing."""


class StopModelGesture(FleetGesture, verb="stop"):
    """Stop one model of the run."""


class RereadGesture(FleetGesture):
    """Read the fleet's file again."""


class LeaveGesture(FleetGesture):
    """Remove a device from the run."""


class ReturnGesture(FleetGesture):
    """Return a device to the run."""


# Gestures of the start panel, and of the strips that change the model on a board.


START, MODEL = "start panel", "model sizes"
"""Zones that show refusals: the start panel and the model size strip."""


class NewPlanGesture(Gesture, refused_at=START):
    """Open the start panel, or return to the board."""

    open: Flag = False


class ForgetLessonsGesture(Gesture, refused_at=START):
    """Delete the answers to all lessons."""


class ChooseModelGesture(Gesture, refused_at=START):
    """Choose the model: `decoder/llama3-8b` of the zoo, `my_module:program` of the folder; empty to choose again."""

    model: Text200 = ""


class StartFileGesture(Gesture, refused_at=START):
    """Choose a `config.json`, or open a plan file; `text` is missing if the file is too large."""

    name: Text200 = ""
    text: FileText = None


class ChooseMachinesGesture(Gesture, refused_at=START):
    """Choose the machines and the input of a step: `batch` sequences of `tokens` tokens. `total` is the number of tokens to train on."""

    on: Text200 = ""
    batch: Text20 = ""
    tokens: Text20 = ""
    total: Text20 = ""
    decode: Flag = False


class OpenLayoutGesture(Gesture, refused_at=START):
    """Open one of the proposed layouts on the board."""

    goal: Text40 = ""


class StopStartGesture(Gesture, refused_at=START):
    """Cancel the work of the start panel."""


class SizeModelGesture(Gesture, refused_at=MODEL):
    """Change a size or an option of the model on the board."""

    name: Text80 = ""
    value: Text80 = ""


class StopSizingGesture(Gesture, refused_at=MODEL):
    """Cancel retracing of the model."""


class ConfirmNamesGesture(Gesture, refused_at=MODEL):
    """Confirm the proposed dimension names."""
