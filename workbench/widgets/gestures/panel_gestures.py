"""Gestures of the panels beside the board: exercise, search, fleet."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.gesture import TABLES, Flag, Gesture, Text20, Text40, Text80, Text200

# Gestures of an exercise on the board.


@dataclass(frozen=True, slots=True)
class _ExerciseGesture(Gesture):
    """A gesture whose refusal is shown in the exercise."""

    refused_at: ClassVar[str] = "exercise"


@dataclass(frozen=True, slots=True)
class QuestionGesture(_ExerciseGesture):
    """Show one of the questions."""

    name: Text80 = ""


@dataclass(frozen=True, slots=True)
class StartQuestionGesture(_ExerciseGesture):
    """Load the start plan of the question on the board."""


@dataclass(frozen=True, slots=True)
class AnswerGesture(_ExerciseGesture):
    """Answer the question with the plan on the board or with a text."""

    verb: ClassVar[str] = "answer_question"
    answer: Text200 = ""


# Gestures of the search for a plan, with text as the user typed it, and of the plans found.


@dataclass(frozen=True, slots=True)
class FindGesture(Gesture):
    """Search for plans; empty texts leave a choice open."""

    refused_at: ClassVar[str] = TABLES
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


@dataclass(frozen=True, slots=True)
class StopFindingGesture(Gesture):
    """Stop the search and keep its results."""

    refused_at: ClassVar[str] = TABLES


@dataclass(frozen=True, slots=True)
class ChooseFoundGesture(Gesture):
    """Select a found plan by number, or deselect it."""

    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""


@dataclass(frozen=True, slots=True)
class TakeFoundGesture(Gesture):
    """Make a found plan the present plan."""

    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""


@dataclass(frozen=True, slots=True)
class ExplainFoundGesture(Gesture):
    """Explain a found plan: the ledger from plan `than`, and the effect of each decision."""

    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""
    than: Text20 = ""


@dataclass(frozen=True, slots=True)
class VerifyFoundGesture(Gesture):
    """Verify a found plan with XLA's partitioner and the compiler."""

    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""


@dataclass(frozen=True, slots=True)
class StopVerifyingGesture(Gesture):
    """Stop verifying and keep the answers."""

    refused_at: ClassVar[str] = TABLES


@dataclass(frozen=True, slots=True)
class RelaxGesture(Gesture):
    """Search again with one conflicting requirement relaxed, given by its index."""

    refused_at: ClassVar[str] = TABLES
    place: Text20 = ""


@dataclass(frozen=True, slots=True)
class PinChoiceGesture(Gesture):
    """Search again with one decision pinned to that of the present plan."""

    refused_at: ClassVar[str] = TABLES
    decision: Text20 = ""


# Gestures on the board of a fleet.


@dataclass(frozen=True, slots=True)
class FleetGesture(Gesture):
    """A control of the fleet; `value` is the user's choice or text."""

    verb: ClassVar[str] = ""
    value: Text200 = ""


@dataclass(frozen=True, slots=True)
class PolicyGesture(FleetGesture):
    """Choose a policy."""


@dataclass(frozen=True, slots=True)
class MemoryGesture(FleetGesture):
    """Set the memory budget of each device; empty for all memory."""


@dataclass(frozen=True, slots=True)
class BudgetGesture(FleetGesture):
    """Double the budget (`more`), or halve it."""


@dataclass(frozen=True, slots=True)
class DevicesGesture(FleetGesture):
    """Set the number of devices."""


@dataclass(frozen=True, slots=True)
class FleetHardwareGesture(FleetGesture):
    """Set the hardware of the fleet; empty for the attached devices."""


@dataclass(frozen=True, slots=True)
class TimeUnitsGesture(FleetGesture):
    """Time the units on this machine."""

    verb: ClassVar[str] = "time"


@dataclass(frozen=True, slots=True)
class CancelTimingGesture(FleetGesture):
    """Cancel the timing."""


@dataclass(frozen=True, slots=True)
class StopModelGesture(FleetGesture):
    """Stop one model of the run."""

    verb: ClassVar[str] = "stop"


@dataclass(frozen=True, slots=True)
class RereadGesture(FleetGesture):
    """Read the fleet's file again."""


@dataclass(frozen=True, slots=True)
class LeaveGesture(FleetGesture):
    """Remove a device from the run."""


@dataclass(frozen=True, slots=True)
class ReturnGesture(FleetGesture):
    """Return a device to the run."""
