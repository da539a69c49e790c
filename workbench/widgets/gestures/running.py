"""Gestures for runs and compilations; and those that only ask for an answer."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import Flag, Text
from workbench.widgets.gestures.gesture import Gesture


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
