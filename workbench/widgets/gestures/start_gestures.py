"""Gestures of the start panel, and of the strips that change the model on a board."""

from workbench.widgets.gestures.gesture import FileText, Flag, Gesture, Text20, Text40, Text80, Text200

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
