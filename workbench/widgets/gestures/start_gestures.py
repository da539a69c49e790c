"""Gestures of the start panel, and of the strips that change the model on a board."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.gesture import FileText, Flag, Gesture, Text20, Text40, Text80, Text200

START, MODEL = "start panel", "model sizes"
"""Zones that show refusals: the start panel and the model size strip."""


@dataclass(frozen=True, slots=True)
class NewPlanGesture(Gesture):
    """Open the start panel, or return to the board."""

    refused_at: ClassVar[str] = START
    open: Flag = False


@dataclass(frozen=True, slots=True)
class ForgetLessonsGesture(Gesture):
    """Delete the answers to all lessons."""

    refused_at: ClassVar[str] = START


@dataclass(frozen=True, slots=True)
class ChooseModelGesture(Gesture):
    """Choose the model: `decoder/llama3-8b` of the zoo, `my_module:program` of the folder; empty to choose again."""

    refused_at: ClassVar[str] = START
    model: Text200 = ""


@dataclass(frozen=True, slots=True)
class StartFileGesture(Gesture):
    """Choose a `config.json`, or open a plan file; `text` is missing if the file is too large."""

    refused_at: ClassVar[str] = START
    name: Text200 = ""
    text: FileText = None


@dataclass(frozen=True, slots=True)
class ChooseMachinesGesture(Gesture):
    """Choose the machines and the input of a step: `batch` sequences of `tokens` tokens. `total` is the number of tokens to train on."""

    refused_at: ClassVar[str] = START
    on: Text200 = ""
    batch: Text20 = ""
    tokens: Text20 = ""
    total: Text20 = ""
    decode: Flag = False


@dataclass(frozen=True, slots=True)
class OpenLayoutGesture(Gesture):
    """Open one of the proposed layouts on the board."""

    refused_at: ClassVar[str] = START
    goal: Text40 = ""


@dataclass(frozen=True, slots=True)
class StopStartGesture(Gesture):
    """Cancel the work of the start panel."""

    refused_at: ClassVar[str] = START


@dataclass(frozen=True, slots=True)
class SizeModelGesture(Gesture):
    """Change a size or an option of the model on the board."""

    refused_at: ClassVar[str] = MODEL
    name: Text80 = ""
    value: Text80 = ""


@dataclass(frozen=True, slots=True)
class StopSizingGesture(Gesture):
    """Cancel retracing of the model."""

    refused_at: ClassVar[str] = MODEL


@dataclass(frozen=True, slots=True)
class ConfirmNamesGesture(Gesture):
    """Confirm the proposed dimension names."""

    refused_at: ClassVar[str] = MODEL
