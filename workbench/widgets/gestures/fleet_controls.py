"""Gestures on the board of a fleet."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import Text200
from workbench.widgets.gestures.gesture import Gesture


@dataclass(frozen=True, slots=True)
class FleetGesture(Gesture):
    """A control of the fleet; `value` is what the user chose or typed."""

    value: Text200 = ""


@dataclass(frozen=True, slots=True)
class PolicyGesture(FleetGesture):
    """Choose another policy."""

    verb: ClassVar[str] = "policy"


@dataclass(frozen=True, slots=True)
class MemoryGesture(FleetGesture):
    """Set the budget of each device; empty for all it has."""

    verb: ClassVar[str] = "memory"


@dataclass(frozen=True, slots=True)
class BudgetGesture(FleetGesture):
    """Double the budget (`more`), or halve it."""

    verb: ClassVar[str] = "budget"


@dataclass(frozen=True, slots=True)
class DevicesGesture(FleetGesture):
    """Set the number of devices."""

    verb: ClassVar[str] = "devices"


@dataclass(frozen=True, slots=True)
class FleetHardwareGesture(FleetGesture):
    """Set the hardware that the fleet is planned for, attached or not; empty for what is attached."""

    verb: ClassVar[str] = "fleet_hardware"


@dataclass(frozen=True, slots=True)
class TimeUnitsGesture(FleetGesture):
    """Time the units on this machine."""

    verb: ClassVar[str] = "time"


@dataclass(frozen=True, slots=True)
class CancelTimingGesture(FleetGesture):
    """Cancel the timing."""

    verb: ClassVar[str] = "cancel_timing"


@dataclass(frozen=True, slots=True)
class StopModelGesture(FleetGesture):
    """Stop one model of the run."""

    verb: ClassVar[str] = "stop"


@dataclass(frozen=True, slots=True)
class RereadGesture(FleetGesture):
    """Read the fleet's file again."""

    verb: ClassVar[str] = "reread"


@dataclass(frozen=True, slots=True)
class LeaveGesture(FleetGesture):
    """Remove a device from the run."""

    verb: ClassVar[str] = "leave"


@dataclass(frozen=True, slots=True)
class ReturnGesture(FleetGesture):
    """Return a device to the run."""

    verb: ClassVar[str] = "return"
