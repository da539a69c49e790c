"""Gestures on the hardware that the plan is for."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import Needed, Needed200, Needed400
from workbench.widgets.gestures.gesture import EditGesture

HARDWARE_ZONE = "hardware"
"""Where the hardware is chosen: a refusal there is shown under its field."""


@dataclass(frozen=True, slots=True)
class HardwareGesture(EditGesture):
    """Choose a chip of the catalogue and a shape; either may be empty, and without both there is no hardware."""

    verb: ClassVar[str] = "hardware"
    refused_at: ClassVar[str] = HARDWARE_ZONE
    chip: Needed
    shape: Needed200


@dataclass(frozen=True, slots=True)
class AxisAssignmentGesture(EditGesture):
    """Set which mesh axis runs over which links; empty for the default."""

    verb: ClassVar[str] = "wiring"
    refused_at: ClassVar[str] = HARDWARE_ZONE
    name: Needed400
