"""A question whose answer is a number with its unit, to be found before the workbench shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from workbench.analysis.analyze import analyze
from workbench.documents.plans import parse_plan
from workbench.errors import WorkbenchError
from workbench.exercises.parse_answer import build_once
from workbench.exercises.plan_figures import find_figure, read_figure
from workbench.exercises.quantities import UNITS, format_quantity, parse_quantity
from workbench.exercises.question_text import number_words, question_markdown
from workbench.exercises.usual_mistakes import recognise
from workbench.exercises.verdict import Check, Verdict, refusal

TOLERANCE = 0.02  # the share by which an answer may be off: what a person rounds


@dataclass(frozen=True, slots=True)
class FigureOf:
    """A figure of a plan (`plan_figures`), by the plan's document, with fields of the plan in place of the document's, such as
    `{"layout": "I:x"}`: the planner has the answer, and no lesson repeats it."""

    figure: str
    plan: str
    change: Mapping[str, str] = field(default_factory=dict)
    times: float = 1.0

    def read(self) -> float:
        """Raises `WorkbenchError` where the plan cannot be read, or lacks the figure."""
        return self.times * _read_of_plan(self.figure, self.plan, tuple(self.change.items()))


@lru_cache(maxsize=256)
def _read_of_plan(figure: str, text: str, change: tuple[tuple[str, str], ...]) -> float:
    plan = parse_plan(text, "The plan of a question", build=build_once)
    return read_figure(figure, analyze(plan.updated(**dict(change)) if change else plan))


@dataclass(frozen=True, slots=True)
class NumberQuestion:
    """How much is it? `answer` is a number in `unit` (of `quantities`), or the figure of a plan; an answer may be off by the share
    `tolerance`. `mistakes` are wrong answers with what to say of each; others are recognised by their factor, those with all `devices` in
    place of one among them. `why` is said to the right one."""

    name: str
    ask: str
    answer: float | FigureOf
    unit: str
    tolerance: float = TOLERANCE
    devices: int = 0
    mistakes: tuple[tuple[float, str], ...] = ()
    hints: tuple[str, ...] = ()
    points: float = 1.0
    why: str = ""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise WorkbenchError(f"`{self.unit}` is no unit of a question.", [f"write {', '.join(UNITS)}"])
        if isinstance(self.answer, FigureOf):
            find_figure(self.answer.figure)

    @property
    def how(self) -> str:
        """How it is answered, in a sentence."""
        return number_words(self.unit)

    @property
    def right(self) -> float:
        """The answer. Raises `WorkbenchError` where the plan that has it cannot be read."""
        return self.answer.read() if isinstance(self.answer, FigureOf) else self.answer

    def check(self, answer: str | float, attempt: int = 1) -> Verdict:
        """Whether a number is the answer; one that is not is told what its author likely did. `attempt` is the number of the try: each one
        but the first earns a hint."""
        hints = self.hints[: max(attempt - 1, 0)]
        try:
            given = parse_quantity(answer, self.unit)
        except WorkbenchError as error:
            return refusal((str(error),), self.points, hints)
        right = self.right
        if abs(given - right) <= self.tolerance * abs(right):
            return Verdict((Check("The number is right.", points=self.points),), why=self.why)
        reason = f"{format_quantity(given, self.unit)} is not it."
        return Verdict((Check("The number is right.", " ".join(filter(None, (reason, self._mistake(given, right)))), self.points),), hints)

    def _mistake(self, given: float, right: float) -> str:
        """What was likely done, first of the mistakes that the question knows of."""
        for wrong, hint in self.mistakes:
            if abs(given - wrong) <= self.tolerance * abs(wrong):
                return hint
        return recognise(given, right, self.unit, self.tolerance, self.devices)

    def _repr_markdown_(self) -> str:
        return question_markdown(self.name, self.ask, self.how)

    __repr__ = _repr_markdown_  # that of a dataclass would show the answer
