"""Gestures of the panels beside the board: an exercise, the search for a plan, a fleet."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.gesture import TABLES, Flag, Gesture, Text20, Text40, Text80, Text200

# Gestures of an exercise on the board: look at a question, begin with its plan, answer it.


@dataclass(frozen=True, slots=True)
class _ExerciseGesture(Gesture):
    """A gesture of the exercise, whose refusal is shown there."""

    refused_at: ClassVar[str] = "exercise"


@dataclass(frozen=True, slots=True)
class QuestionGesture(_ExerciseGesture):
    """Look at one of the questions."""

    name: Text80 = ""


@dataclass(frozen=True, slots=True)
class StartQuestionGesture(_ExerciseGesture):
    """Put the plan that the question starts from on the board."""


@dataclass(frozen=True, slots=True)
class AnswerGesture(_ExerciseGesture):
    """Answer the question: with the plan on the board, or with a text."""

    verb: ClassVar[str] = "answer_question"
    answer: Text200 = ""


# Gestures of the search for a plan: what is fixed and what may be chosen, as the user typed it; and what is asked of the plans found.


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
    """Stop the search; what it has found stays."""

    refused_at: ClassVar[str] = TABLES


@dataclass(frozen=True, slots=True)
class ChooseFoundGesture(Gesture):
    """Choose one of the plans found, by its number; chosen again, it is no longer chosen."""

    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""


@dataclass(frozen=True, slots=True)
class TakeFoundGesture(Gesture):
    """Make one of the plans found the present plan."""

    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""


@dataclass(frozen=True, slots=True)
class ExplainFoundGesture(Gesture):
    """Ask why one of the plans found stands where it stands: the ledger from another one, and what each decision does."""

    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""
    than: Text20 = ""


@dataclass(frozen=True, slots=True)
class VerifyFoundGesture(Gesture):
    """Ask XLA's partitioner and then the compiler about one of the plans found."""

    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""


@dataclass(frozen=True, slots=True)
class StopVerifyingGesture(Gesture):
    """Ask them no more; what they answered stays."""

    refused_at: ClassVar[str] = TABLES


@dataclass(frozen=True, slots=True)
class RelaxGesture(Gesture):
    """Search again with one of the requirements that clash in the weaker form that has a plan, by its place among them."""

    refused_at: ClassVar[str] = TABLES
    place: Text20 = ""


@dataclass(frozen=True, slots=True)
class PinChoiceGesture(Gesture):
    """Search again with one decision fixed as the plan on the board has it."""

    refused_at: ClassVar[str] = TABLES
    decision: Text20 = ""


# Gestures on the board of a fleet.


@dataclass(frozen=True, slots=True)
class FleetGesture(Gesture):
    """A control of the fleet; `value` is what the user chose or typed."""

    verb: ClassVar[str] = ""
    value: Text200 = ""


@dataclass(frozen=True, slots=True)
class PolicyGesture(FleetGesture):
    """Choose another policy."""


@dataclass(frozen=True, slots=True)
class MemoryGesture(FleetGesture):
    """Set the budget of each device; empty for all it has."""


@dataclass(frozen=True, slots=True)
class BudgetGesture(FleetGesture):
    """Double the budget (`more`), or halve it."""


@dataclass(frozen=True, slots=True)
class DevicesGesture(FleetGesture):
    """Set the number of devices."""


@dataclass(frozen=True, slots=True)
class FleetHardwareGesture(FleetGesture):
    """Set the hardware of the fleet, attached or not; empty for what is attached."""


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
