"""A question whose answer is one or several of some choices: predict first, then see."""

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.errors import WorkbenchError
from workbench.exercises.verdict import Check, Verdict, choice_words, question_markdown, refusal


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice; `why` says what is right or wrong about it."""

    text: str
    is_right: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """Which of these? An answer gives all right ones and no other, by their numbers from 1 or by their text: `2`, `"1 3"`."""

    name: str
    ask: str
    choices: tuple[Choice, ...]
    hints: tuple[str, ...] = ()
    points: float = 1.0

    def __post_init__(self) -> None:
        if not any(each.is_right for each in self.choices):
            raise WorkbenchError(f"No choice of `{self.name}` is marked right.", ['set "right": true on a choice'])

    def check(self, answer: str | int | Iterable[int], attempt: int = 1) -> Verdict:
        """Whether these are the right ones. `attempt` is the number of the try: each one but the first earns a hint."""
        hints = self.hints[: max(attempt - 1, 0)]
        try:
            chosen = self._read(answer)
        except WorkbenchError as error:
            return refusal((str(error),), self.points, hints)
        what = "The correct choices." if self.is_several else "The correct choice."
        reason = self._miss(chosen)
        why = "" if reason else " ".join(each.why for each in self.choices if each.is_right and each.why)
        return Verdict((Check(what, reason, self.points),), hints if reason else (), why)

    @property
    def how(self) -> str:
        """How it is answered, in a sentence."""
        return choice_words(several=self.is_several)

    @property
    def is_several(self) -> bool:
        """Whether more than one choice is right."""
        return self._most > 1

    @property
    def _most(self) -> int:
        return sum(each.is_right for each in self.choices)

    def _miss(self, chosen: frozenset[int]) -> str:
        for number in sorted(chosen):
            if not (wrong := self.choices[number - 1]).is_right:
                return f"Not “{wrong.text}”. {wrong.why}".rstrip()
        missing = self._most - len(chosen)
        return f"{missing} more {'is' if missing == 1 else 'are'} right." if missing else ""

    def _read(self, answer: str | int | Iterable[int]) -> frozenset[int]:
        """The numbers of an answer. Raises `WorkbenchError` for what is no choice."""
        texts = {each.text.casefold(): number for number, each in enumerate(self.choices, 1)}
        if isinstance(answer, str) and answer.strip().casefold() in texts:
            return frozenset({texts[answer.strip().casefold()]})
        given = answer.replace(",", " ").split() if isinstance(answer, str) else [answer] if isinstance(answer, int) else list(answer)
        numbers = [int(each) if str(each).isdecimal() and len(str(each)) < 4 else 0 for each in given]
        if not numbers or not all(1 <= each <= len(self.choices) for each in numbers):
            raise WorkbenchError(
                f"`{str(answer)[:80]}` is not one of the choices.", [f"give numbers from 1 to {len(self.choices)}, such as `1`"]
            )
        return frozenset(numbers)

    def _repr_markdown_(self) -> str:
        return question_markdown(self.name, self.ask, self.how, (each.text for each in self.choices), numbered=True)

    __repr__ = _repr_markdown_  # that of a dataclass would show the answer
