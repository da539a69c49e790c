"""What a hand does with what takes time: runs and compilations; and what only the answer is wanted of."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import Flag, Text
from workbench.widgets.gestures.gesture import Gesture


@dataclass(frozen=True, slots=True)
class RunGesture(Gesture):
    """The plan run for so many steps, as a person typed them; or a fleet trained."""

    verb: ClassVar[str] = "run"
    steps: Text = ""


@dataclass(frozen=True, slots=True)
class CancelGesture(Gesture):
    """The run ended."""

    verb: ClassVar[str] = "cancel"


@dataclass(frozen=True, slots=True)
class CompileGesture(Gesture):
    """The plan compiled for its hardware."""

    verb: ClassVar[str] = "compile"


@dataclass(frozen=True, slots=True)
class CancelCompilationGesture(Gesture):
    """The compilation ended."""

    verb: ClassVar[str] = "cancel_compilation"


@dataclass(frozen=True, slots=True)
class CompileAtRestGesture(Gesture):
    """Whether a plan that stands for a moment is compiled unasked."""

    verb: ClassVar[str] = "compile_at_rest"
    on: Flag = False


@dataclass(frozen=True, slots=True)
class DismissGesture(Gesture):
    """A refusal put away, which any gesture does."""

    verb: ClassVar[str] = "dismiss"


@dataclass(frozen=True, slots=True)
class RefreshGesture(Gesture):
    """The page lacks what it was told, and is told it again; answered before it is read."""

    verb: ClassVar[str] = "refresh"
