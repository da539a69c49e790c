"""Questions as text and as Markdown, for a terminal and for a notebook cell."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.exercises.choice_question import ChoiceQuestion
    from workbench.exercises.exercise import Exercise
    from workbench.exercises.number_question import NumberQuestion
    from workbench.exercises.plan_question import PlanQuestion

CHANGE_WORDS = {"axis_assignment": "axes on links", "remat": "rematerialisation", "devices": "number of devices"}
"""What may change, where its name in an exercise is not the word that people use."""
_HOW = {
    "bytes": "an amount of bytes, such as `16 KiB`",
    "seconds": "a time, such as `23 us`",
    "share": "a share, such as `12 %`",
    "count": "a number",
}


def plan_markdown(question: "PlanQuestion") -> str:
    """What is asked, the goals that are checked, and what may change."""
    changes = f"*{change_words(question)} The start is {question.plan}.*"
    return "\n".join([_ask(question), "", *(f"- {each.goal.describe()}" for each in question.goals), "", changes])


def number_markdown(question: "NumberQuestion") -> str:
    return "\n\n".join([_ask(question), f"*{answer_words(question)}*"])


def choice_markdown(question: "ChoiceQuestion") -> str:
    choices = [f"{number}. {each.text}" for number, each in enumerate(question.choices, 1)]
    return "\n".join([_ask(question), "", *choices, "", f"*{answer_words(question)}*"])


def answer_words(question: "NumberQuestion | ChoiceQuestion") -> str:
    """How a question is answered that asks for no plan."""
    unit = getattr(question, "unit", "")
    if unit:
        return f"Answer with {_HOW[unit]}."
    several = sum(each.is_right for each in getattr(question, "choices", ())) > 1
    return f"Answer with {'all numbers that apply' if several else 'one number'}."


def exercise_markdown(exercise: "Exercise") -> str:
    """The title, and each question by its name and points."""
    return "\n".join([f"**{exercise.title}**", "", *_list(exercise)])


def _list(exercise: "Exercise") -> Iterator[str]:
    for each in exercise.questions:
        first = each.ask.strip().splitlines()[0]
        yield f"- `{each.name}`, {each.points:g} point{'s' * (each.points != 1)}: {first}"


def _ask(question: "PlanQuestion | NumberQuestion | ChoiceQuestion") -> str:
    return f"**`{question.name}`** {question.ask.strip()}"


def change_words(question: "PlanQuestion") -> str:
    """What an answer may change."""
    words = [CHANGE_WORDS.get(each, each.replace("_", " ")) for each in question.may_change]
    what = f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
    return f"The {what} may change."
