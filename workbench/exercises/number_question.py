"""Questions with a numeric answer; common mistakes are identified by their factor to the right answer."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from workbench.analysis.analyze import analyze
from workbench.documents.plan_documents import parse_plan
from workbench.errors import WorkbenchError
from workbench.exercises.plan_figures import BYTES, SECONDS, SHARE, UNITS, find_figure, format_quantity, parse_quantity, read_figure
from workbench.exercises.variants import build_once
from workbench.exercises.verdict import Check, Verdict, number_words, question_markdown, refusal

TOLERANCE = 0.02  # relative tolerance, for rounding by hand


@dataclass(frozen=True, slots=True)
class FigureOf:
    """A figure (`plan_figures`) of a plan document as the answer, `times` a factor.

    `change` overrides fields of the plan, such as `{"layout": "I:x"}`.
    """

    figure: str
    plan: str
    change: Mapping[str, str] = field(default_factory=dict)
    times: float = 1.0

    def read(self) -> float:
        """The value of the figure. Raises `WorkbenchError` if the plan cannot be read or lacks the figure."""
        return self.times * _read_of_plan(self.figure, self.plan, tuple(self.change.items()))


@lru_cache(maxsize=256)
def _read_of_plan(figure: str, text: str, change: tuple[tuple[str, str], ...]) -> float:
    plan = parse_plan(text, "The plan of a question", build=build_once)
    return read_figure(figure, analyze(plan.updated(**dict(change)) if change else plan))


@dataclass(frozen=True, slots=True)
class NumberQuestion:
    """A question with a number as its answer, fixed or the figure of a plan.

    - `unit`: one of `plan_figures.UNITS`; `tolerance`: the relative tolerance;
    - `mistakes`: wrong answers, each with its feedback; other mistakes are recognised by their factor, among them all
      `devices` instead of one;
    - `why`: the feedback on a right answer.
    """

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
            raise WorkbenchError(f"`{self.unit}` is not a unit of a question.", [f"write {', '.join(UNITS)}"])
        if isinstance(self.answer, FigureOf):
            find_figure(self.answer.figure)

    @property
    def how(self) -> str:
        return number_words(self.unit)

    @property
    def right(self) -> float:
        """The right answer. Raises `WorkbenchError` if the plan that determines it cannot be read."""
        return self.answer.read() if isinstance(self.answer, FigureOf) else self.answer

    def read(self, answer: str | float) -> float:
        return parse_quantity(answer, self.unit)

    def check(self, answer: str | float, attempt: int = 1) -> Verdict:
        """The verdict on an answer; each `attempt` after the first reveals one more hint."""
        hints = self.hints[: max(attempt - 1, 0)]
        try:
            value = self.read(answer)
        except WorkbenchError as error:
            return refusal((str(error),), self.points, hints)
        right = self.right
        if abs(value - right) <= self.tolerance * abs(right):
            return Verdict((Check("Correct.", points=self.points),), why=self.why)
        reason = f"{format_quantity(value, self.unit)} is wrong."
        return Verdict((Check("Correct.", " ".join(filter(None, (reason, self._mistake(value, right)))), self.points),), hints)

    def _mistake(self, given: float, right: float) -> str:
        """The likely mistake; those defined by the question take precedence."""
        for wrong, hint in self.mistakes:
            if abs(given - wrong) <= self.tolerance * abs(wrong):
                return hint
        return explain_mistake(given, right, self.unit, self.tolerance, self.devices)

    def _repr_markdown_(self) -> str:
        return question_markdown(self.name, self.ask, self.how)

    __repr__ = _repr_markdown_  # the dataclass repr would show the answer


# Common mistakes, recognised by their factor: bits instead of bytes, one direction instead of both, all devices instead of one.


@dataclass(frozen=True, slots=True)
class Mistake:
    """The feedback on an answer that is `factor` times the right one, for questions in these `units` (empty: any)."""

    factor: float
    hint: str
    units: tuple[str, ...] = ()


_KIB = 1024 / 1000
ALL_MISTAKES = (
    Mistake(8, "That is 8 times as much: bits instead of bytes?", (BYTES, SECONDS)),
    Mistake(1 / 8, "That is an eighth: were bytes divided by 8 as if they were bits?", (BYTES, SECONDS)),
    *(
        Mistake(_KIB**power, f"{big} uses 1024 and {small} uses 1000: check the unit.", (BYTES,))
        for power, small, big in ((1, "kB", "KiB"), (2, "MB", "MiB"), (3, "GB", "GiB"), (4, "TB", "TiB"))
    ),
    *(
        Mistake(_KIB**-power, f"{big} uses 1024 and {small} uses 1000: check the unit.", (BYTES,))
        for power, small, big in ((1, "kB", "KiB"), (2, "MB", "MiB"), (3, "GB", "GiB"), (4, "TB", "TiB"))
    ),
    Mistake(2, "That is twice as much: both directions of a link, a multiply-add counted twice, or two bytes instead of one?"),
    Mistake(1 / 2, "That is half: one direction instead of both, a multiply-add counted once, or one byte instead of two?"),
    Mistake(3, "That is three times as much: was the backward pass included?"),
    Mistake(1 / 3, "That is a third: was the backward pass, twice the forward pass, left out?"),
    Mistake(1e3, "That is a thousand times as much: ms instead of µs, or an extra k?"),
    Mistake(1e-3, "That is a thousandth: µs instead of ms, or a missing k?"),
    Mistake(100, "That is a hundred times as much: per cent instead of a share?", (SHARE,)),
    Mistake(1 / 100, "That is a hundredth: a share instead of per cent?", (SHARE,)),
)


def list_mistakes(unit: str, devices: int = 0) -> Iterator[Mistake]:
    """The mistakes to look for in a number of this unit; with `devices`, also those between all devices and one."""
    if devices > 1:
        yield Mistake(devices, f"That is {devices:,} times as much: all devices instead of one?")
        yield Mistake(1 / devices, f"That is one {devices:,}th: one device instead of all?")
        yield Mistake(
            devices / (devices - 1),
            f"That is {devices}/{devices - 1} of it: a device keeps its own part, and sends the other {devices - 1}.",
        )
        yield Mistake((devices - 1) / devices, f"That is {devices - 1}/{devices} of it: the device's own part counts, too.")
    yield from (mistake for mistake in ALL_MISTAKES if not mistake.units or unit in mistake.units)


def explain_mistake(given: float, right: float, unit: str, tolerance: float, devices: int = 0) -> str:
    """The feedback on the mistake with the nearest factor; empty if none is within the tolerance."""
    if right == 0 or given == 0 or not math.isfinite(given):
        return ""
    if unit == SHARE and abs(given - (1 - right)) <= tolerance * abs(1 - right):
        return "That is the complement: 1 minus the share that is required."
    if given / right < 0:
        return "The sign is wrong."
    nearest = min(list_mistakes(unit, devices), key=lambda mistake: abs(math.log(given / right / mistake.factor)))
    return nearest.hint if abs(given / right / nearest.factor - 1) <= min(tolerance, 0.01) else ""
