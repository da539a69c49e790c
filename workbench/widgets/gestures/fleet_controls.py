"""What a hand does on the board of many models."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import Text200
from workbench.widgets.gestures.gesture import Gesture


@dataclass(frozen=True, slots=True)
class FleetGesture(Gesture):
    """A control of the fleet; `value` is what a person chose or typed."""

    value: Text200 = ""


@dataclass(frozen=True, slots=True)
class PolicyGesture(FleetGesture):
    """Another policy."""

    verb: ClassVar[str] = "policy"


@dataclass(frozen=True, slots=True)
class MemoryGesture(FleetGesture):
    """Another budget of each device; empty for all it has."""

    verb: ClassVar[str] = "memory"


@dataclass(frozen=True, slots=True)
class BudgetGesture(FleetGesture):
    """Twice the budget, `more`, or half."""

    verb: ClassVar[str] = "budget"


@dataclass(frozen=True, slots=True)
class DevicesGesture(FleetGesture):
    """Another number of devices."""

    verb: ClassVar[str] = "devices"


@dataclass(frozen=True, slots=True)
class TimeUnitsGesture(FleetGesture):
    """The units timed on this machine."""

    verb: ClassVar[str] = "time"


@dataclass(frozen=True, slots=True)
class CancelTimingGesture(FleetGesture):
    """The timing ended."""

    verb: ClassVar[str] = "cancel_timing"


@dataclass(frozen=True, slots=True)
class StopModelGesture(FleetGesture):
    """One model of the run stopped."""

    verb: ClassVar[str] = "stop"


@dataclass(frozen=True, slots=True)
class RereadGesture(FleetGesture):
    """The file of the fleet read again."""

    verb: ClassVar[str] = "reread"


@dataclass(frozen=True, slots=True)
class LeaveGesture(FleetGesture):
    """A device taken away from the run."""

    verb: ClassVar[str] = "leave"


@dataclass(frozen=True, slots=True)
class ReturnGesture(FleetGesture):
    """A device given back to the run."""

    verb: ClassVar[str] = "return"
