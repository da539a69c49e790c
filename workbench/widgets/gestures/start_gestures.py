"""Gestures of the start panel, and of the strips that change the model on a board."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.gesture import FileText, Flag, Gesture, Text20, Text40, Text80, Text200

START, MODEL = "start panel", "model sizes"
"""The zones that show refusals: the start panel, and the strip of the model's sizes."""


@dataclass(frozen=True, slots=True)
class NewPlanGesture(Gesture):
    """Open the start panel, or go back to the board."""

    refused_at: ClassVar[str] = START
    open: Flag = False


@dataclass(frozen=True, slots=True)
class ChooseModelGesture(Gesture):
    """Choose what is sharded: `decoder/llama3-8b` of the zoo, `my_module:program` of the folder; empty for another choice."""

    refused_at: ClassVar[str] = START
    model: Text200 = ""


@dataclass(frozen=True, slots=True)
class StartFileGesture(Gesture):
    """Choose a `config.json`, or open a plan file. Without a text it is too large."""

    refused_at: ClassVar[str] = START
    name: Text200 = ""
    text: FileText = None


@dataclass(frozen=True, slots=True)
class ChooseMachinesGesture(Gesture):
    """Choose the machines, and what a step is given: so many sequences of so many tokens. `seq` is the number of the message."""

    refused_at: ClassVar[str] = START
    on: Text200 = ""
    batch: Text20 = ""
    tokens: Text20 = ""
    decode: Flag = False


@dataclass(frozen=True, slots=True)
class OpenLayoutGesture(Gesture):
    """Open one of the layouts of the answer on the board."""

    refused_at: ClassVar[str] = START
    goal: Text40 = ""


@dataclass(frozen=True, slots=True)
class StopStartGesture(Gesture):
    """Stop what the start panel waits for."""

    refused_at: ClassVar[str] = START


@dataclass(frozen=True, slots=True)
class SizeModelGesture(Gesture):
    """Change a size or a choice of the model on the board."""

    refused_at: ClassVar[str] = MODEL
    name: Text80 = ""
    value: Text80 = ""


@dataclass(frozen=True, slots=True)
class StopSizingGesture(Gesture):
    """Stop tracing the model again."""

    refused_at: ClassVar[str] = MODEL


@dataclass(frozen=True, slots=True)
class ConfirmNamesGesture(Gesture):
    """Confirm the names that are proposed for dimensions."""

    refused_at: ClassVar[str] = MODEL
