"""Multiple-choice questions, which ask for a prediction before the workbench shows the answer."""

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.errors import WorkbenchError
from workbench.exercises.verdict import Check, Verdict, choice_words, question_markdown, refusal


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice; `why` explains why it is right or wrong. `formerly` are earlier texts, which stored answers may have."""

    text: str
    is_right: bool = False
    why: str = ""
    formerly: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """A multiple-choice question. An answer lists exactly the right choices by number from 1 or by text: `2`, `"1 3"`."""

    name: str
    ask: str
    choices: tuple[Choice, ...]
    hints: tuple[str, ...] = ()
    points: float = 1.0

    def __post_init__(self) -> None:
        if not any(choice.is_right for choice in self.choices):
            raise WorkbenchError(f"No choice of `{self.name}` is marked right.", ['set "right": true on a choice'])

    def check(self, answer: str | int | Iterable[int], attempt: int = 1) -> Verdict:
        """The verdict on an answer. Each `attempt` after the first reveals one more hint."""
        hints = self.hints[: max(attempt - 1, 0)]
        try:
            chosen = self.read(answer)
        except WorkbenchError as error:
            return refusal((str(error),), self.points, hints)
        description = "The correct choices." if self.is_several else "The correct choice."
        reason = self._miss(chosen)
        why = "" if reason else " ".join(choice.why for choice in self.choices if choice.is_right and choice.why)
        return Verdict((Check(description, reason, self.points),), hints if reason else (), why)

    @property
    def how(self) -> str:
        return choice_words(several=self.is_several)

    @property
    def is_several(self) -> bool:
        return self._most > 1

    @property
    def _most(self) -> int:
        return sum(choice.is_right for choice in self.choices)

    def _miss(self, chosen: frozenset[int]) -> str:
        for number in sorted(chosen):
            if not (wrong := self.choices[number - 1]).is_right:
                return f"Not “{wrong.text}”. {wrong.why}".rstrip()
        missing = self._most - len(chosen)
        return f"{missing} more {'is' if missing == 1 else 'are'} right." if missing else ""

    def read(self, answer: str | int | Iterable[int]) -> frozenset[int]:
        """Parse an answer to choice numbers. Raises `WorkbenchError` if it is not a valid choice."""
        texts = {text.casefold(): number for number, entry in enumerate(self.choices, 1) for text in (*entry.formerly, entry.text)}
        if isinstance(answer, str) and answer.strip().casefold() in texts:
            return frozenset({texts[answer.strip().casefold()]})
        entries = answer.replace(",", " ").split() if isinstance(answer, str) else [answer] if isinstance(answer, int) else list(answer)
        numbers = [int(entry) if str(entry).isdecimal() and len(str(entry)) < 4 else 0 for entry in entries]
        if not numbers or not all(1 <= entry <= len(self.choices) for entry in numbers):
            raise WorkbenchError(
                f"`{str(answer)[:80]}` is not one of the choices.", [f"give numbers from 1 to {len(self.choices)}, such as `1`"]
            )
        return frozenset(numbers)

    def _repr_markdown_(self) -> str:
        return question_markdown(self.name, self.ask, self.how, (choice.text for choice in self.choices), numbered=True)

    __repr__ = _repr_markdown_  # the dataclass repr would show the answer
