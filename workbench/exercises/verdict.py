"""Verdicts on answers: the checks met and missed, points, and hints."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement of an answer; `reason` is why it is missed. `hidden` checks are only shown with a verdict."""

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
    """The verdict on an answer; `why` is the feedback on a right one."""

    checks: tuple[Check, ...] = ()
    hints: tuple[str, ...] = ()
    why: str = ""

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(check.reason for check in self.checks if not check.is_met)

    @property
    def score(self) -> float:
        """The points of the met checks, out of `most`."""
        return sum(check.points for check in self.checks if check.is_met)

    @property
    def most(self) -> float:
        return sum(check.points for check in self.checks)

    def __bool__(self) -> bool:
        return not self.reasons

    def __str__(self) -> str:
        if self:
            return f"Right. {self.why}".rstrip()
        hints = [f"Hint: {hint}" for hint in self.hints]
        return "\n".join(["\n  - ".join(["Not yet:", *self.reasons]), *hints])

    __repr__ = __str__  # an interactive shell shows the repr

    def _repr_markdown_(self) -> str:
        return verdict_markdown(self.reasons, self.hints, self.why)


def refusal(reasons: Iterable[str], points: float = 1.0, hints: tuple[str, ...] = ()) -> Verdict:
    """The verdict on an inadmissible answer, which is not checked further."""
    problems = tuple(reasons)
    return Verdict(tuple(Check("It answers the question.", problem, points / len(problems)) for problem in problems), hints)


# Questions and verdicts as Markdown, for notebooks and the board.

CHANGE_WORDS = {"axis_assignment": "axes on links", "remat": "rematerialisation", "devices": "number of devices"}
"""Display names of settings whose name in an exercise is not the usual term."""
_UNITS = {
    "bytes": "an amount of bytes, such as `3 KiB`",
    "seconds": "a time, such as `23 us`",
    "share": "a share, such as `12 %`",
    "count": "a number",
}


def change_words(may_change: Sequence[str]) -> str:
    """The settings that may change, as a sentence.

    >>> change_words(["layout", "remat"])
    'The layout and rematerialisation may change.'
    """
    words = [CHANGE_WORDS.get(setting, setting.replace("_", " ")) for setting in may_change]
    return f"The {', '.join(words[:-1])} and {words[-1]} may change." if len(words) > 1 else f"The {words[0]} may change."


def number_words(unit: str) -> str:
    return f"Answer with {_UNITS[unit]}."


def choice_words(*, several: bool) -> str:
    return f"Answer with {'all numbers that apply' if several else 'one number'}."


def question_markdown(name: str, ask: str, how: str, items: Iterable[str] = (), *, numbered: bool = False) -> str:
    """The question, a list of goals or choices, and the instructions."""
    rows = [f"{f'{place}.' if numbered else '-'} {item}" for place, item in enumerate(items, 1)]
    return "\n".join([f"**`{name}`** {ask.strip()}", "", *rows, *([""] if rows else []), f"*{how}*"])


def exercise_markdown(title: str, questions: Iterable[tuple[str, float, str]]) -> str:
    """The title, and for each question its name, points and first line."""
    rows = [f"- `{name}`, {points:g} point{'s' * (points != 1)}: {ask.strip().splitlines()[0]}" for name, points, ask in questions]
    return "\n".join([f"**{title}**", "", *rows])


def verdict_markdown(reasons: Sequence[str], hints: Sequence[str], why: str = "") -> str:
    r"""The feedback on an answer, which is right if there are no reasons.

    >>> print(verdict_markdown(["`A` holds *all*."], ["Split it."]))
    **Not yet:**
    <BLANKLINE>
    - `A` holds \*all\*.
    <BLANKLINE>
    Hint: Split it.
    """
    if not reasons:
        return f"**Right.** {_escape_markdown(why)}".rstrip()
    rows = ["**Not yet:**", "", *(f"- {_escape_markdown(text)}" for text in reasons)]
    return "\n".join([*rows, *(f"\nHint: {_escape_markdown(text)}" for text in hints)])


def _escape_markdown(text: str) -> str:
    """Escape Markdown outside of code in backquotes."""
    pieces = text.split("`")
    return "`".join(piece if index % 2 else re.sub(r"([\\*_$<])", r"\\\1", piece) for index, piece in enumerate(pieces))
