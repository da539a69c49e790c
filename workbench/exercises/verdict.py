"""What an answer is told: line by line what it meets and what it misses, its points, and hints."""

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.exercises.question_text import verdict_markdown


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was asked of an answer: `what`, in a sentence, why it is missed (`reason`, empty where it is met), what it is worth in
    `points`, and a `hint` for those who miss it. `hidden` is what is not shown before an answer is given."""

    what: str
    reason: str = ""
    points: float = 1.0
    hint: str = ""
    hidden: bool = False

    @property
    def is_met(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right, which it is if it meets every check; `hints` are those that its attempt has earned, and `why` is what a
    right one is told."""

    checks: tuple[Check, ...] = ()
    hints: tuple[str, ...] = ()
    why: str = ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """What the answer misses."""
        return tuple(each.reason for each in self.checks if not each.is_met)

    @property
    def score(self) -> float:
        """The points of what it meets, of `most`."""
        return sum(each.points for each in self.checks if each.is_met)

    @property
    def most(self) -> float:
        return sum(each.points for each in self.checks)

    def __bool__(self) -> bool:
        return not self.reasons

    def __str__(self) -> str:
        if self:
            return f"Right. {self.why}".rstrip()
        hints = [f"Hint: {hint}" for hint in self.hints]
        return "\n".join(["\n  - ".join(["Not yet:", *self.reasons]), *hints])

    __repr__ = __str__  # a terminal shows the value of the last line by its repr

    def _repr_markdown_(self) -> str:
        return verdict_markdown(self.reasons, self.hints, self.why)


def refusal(reasons: Iterable[str], points: float = 1.0, hints: tuple[str, ...] = ()) -> Verdict:
    """The verdict on what is no answer to the question at all: nothing else of it is looked at."""
    found = tuple(reasons)
    return Verdict(tuple(Check("It answers the question.", each, points / len(found)) for each in found), hints)
