"""Gestures of an exercise on the board: look at a question, begin with its plan, answer it."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import Text80, Text200
from workbench.widgets.gestures.gesture import Gesture


@dataclass(frozen=True, slots=True)
class _ExerciseGesture(Gesture):
    """A gesture of the exercise, whose refusal is shown there."""

    refused_at: ClassVar[str] = "exercise"


@dataclass(frozen=True, slots=True)
class QuestionGesture(_ExerciseGesture):
    """Look at one of the questions."""

    verb: ClassVar[str] = "question"
    name: Text80 = ""


@dataclass(frozen=True, slots=True)
class StartQuestionGesture(_ExerciseGesture):
    """Put the plan that the question starts from on the board."""

    verb: ClassVar[str] = "start_question"


@dataclass(frozen=True, slots=True)
class AnswerGesture(_ExerciseGesture):
    """Answer the question: with the plan on the board, or with a text."""

    verb: ClassVar[str] = "answer_question"
    answer: Text200 = ""
