"""What an answer is told: line by line what it meets and what it misses, its points, and hints."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


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


# Questions and verdicts as Markdown, for a notebook cell, and in a board's words, too: of their parts, whatever holds these.

CHANGE_WORDS = {"axis_assignment": "axes on links", "remat": "rematerialisation", "devices": "number of devices"}
"""What may change, where its name in an exercise is not the word that people use."""
_UNITS = {
    "bytes": "an amount of bytes, such as `3 KiB`",
    "seconds": "a time, such as `23 us`",
    "share": "a share, such as `12 %`",
    "count": "a number",
}


def change_words(may_change: Sequence[str]) -> str:
    """What an answer may change, in a sentence.

    >>> change_words(["layout", "remat"])
    'The layout and rematerialisation may change.'
    """
    words = [CHANGE_WORDS.get(each, each.replace("_", " ")) for each in may_change]
    return f"The {', '.join(words[:-1])} and {words[-1]} may change." if len(words) > 1 else f"The {words[0]} may change."


def number_words(unit: str) -> str:
    """How a number is answered."""
    return f"Answer with {_UNITS[unit]}."


def choice_words(*, several: bool) -> str:
    """How a choice is answered."""
    return f"Answer with {'all numbers that apply' if several else 'one number'}."


def question_markdown(name: str, ask: str, how: str, items: Iterable[str] = (), *, numbered: bool = False) -> str:
    """What is asked, a list of goals or choices, and how it is answered."""
    rows = [f"{f'{place}.' if numbered else '-'} {each}" for place, each in enumerate(items, 1)]
    return "\n".join([f"**`{name}`** {ask.strip()}", "", *rows, *([""] if rows else []), f"*{how}*"])


def exercise_markdown(title: str, questions: Iterable[tuple[str, float, str]]) -> str:
    """The title, and each question by its name, points, and the first line of what it asks."""
    rows = [f"- `{name}`, {points:g} point{'s' * (points != 1)}: {ask.strip().splitlines()[0]}" for name, points, ask in questions]
    return "\n".join([f"**{title}**", "", *rows])


def verdict_markdown(reasons: Sequence[str], hints: Sequence[str], why: str = "") -> str:
    """What an answer is told, which is right if there are no reasons against it.

    >>> print(verdict_markdown(["`A` holds *all*."], ["Split it."]))
    **Not yet:**
    <BLANKLINE>
    - `A` holds \\*all\\*.
    <BLANKLINE>
    Hint: Split it.
    """
    if not reasons:
        return f"**Right.** {_as_said(why)}".rstrip()
    rows = ["**Not yet:**", "", *(f"- {_as_said(each)}" for each in reasons)]
    return "\n".join([*rows, *(f"\nHint: {_as_said(each)}" for each in hints)])


def _as_said(text: str) -> str:
    """A text in which Markdown has nothing but code between backquotes."""
    pieces = text.split("`")
    return "`".join(piece if place % 2 else re.sub(r"([\\*_$<])", r"\\\1", piece) for place, piece in enumerate(pieces))
