"""An exercise: questions that check their own answers, and the documents of exercises and of answers, read as untrusted text.

one = Exercise.load("lessons/one_product/exercise.json")
one.check(plan)                      # Right.
one["bytes_sent"].check("16 KiB")
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.core.installation import upgrade_advice
from workbench.core.parse_untrusted import UnreadableError, parse_json, read_text, verify_length
from workbench.documents.document_schema import schema_problem
from workbench.errors import DocumentError, unknown_name, wrong_type
from workbench.exercises.choice_question import ChoiceQuestion
from workbench.exercises.number_question import NumberQuestion
from workbench.exercises.parse_questions import Question, parse_question
from workbench.exercises.plan_question import PlanQuestion
from workbench.exercises.verdict import Verdict, exercise_markdown
from workbench.plan.plan import Plan
from workbench.public_plan import Plan as PublicPlan


@dataclass(frozen=True, slots=True)
class Exercise:
    """What a lesson asks: `questions` in order, each with a name of its own."""

    name: str
    title: str
    questions: tuple[Question, ...]

    @classmethod
    def load(cls, path: str | Path) -> "Exercise":
        """Read `exercise.json`. Raises `DocumentError` for a file that cannot be read, or is no exercise; no plan is built yet."""
        if not isinstance(path, str | Path):
            raise DocumentError(wrong_type("path", path, "the path of a file"), ['write "lessons/one_product/exercise.json"'])
        return cls.parse(read_document(Path(path)), f"`{path}`")

    @classmethod
    def parse(cls, text: str, name: str = "The text") -> "Exercise":
        """The exercise of a document; `name` is what errors call it. Raises `DocumentError`."""
        document = parse_document("exercise", text, name)
        plans = document.get("plans", {})
        questions = tuple(parse_question(each, plans, name) for each in document["questions"])
        names = [each.name for each in questions]
        if repeated := next((each for each in names if names.count(each) > 1), None):
            raise DocumentError(f"{name} has two questions `{repeated}`.", ["rename one of them"])
        return cls(document["name"], document["title"], questions)

    @property
    def points(self) -> float:
        """What the right answers to all questions are worth."""
        return sum(each.points for each in self.questions)

    @property
    def first_plan(self) -> PublicPlan:
        """The plan of the first question that asks for one. Raises `DocumentError` where none does, or it cannot be read."""
        found = next((each for each in self.questions if isinstance(each, PlanQuestion)), None)
        if found is None:
            raise DocumentError(f"`{self.name}` asks for no plan, so there is nothing to load.", ["pass a plan to the board"])
        return found.plan

    def __getitem__(self, name: str) -> Question:
        """The question of that name. Raises `DocumentError` for one that there is not."""
        found = next((each for each in self.questions if each.name == name), None)
        if found is None:
            raise DocumentError(*unknown_name("question", name, (each.name for each in self.questions), f" in `{self.name}`"))
        return found

    def check(self, answer: Any, question: str = "", attempt: int = 1) -> Verdict:
        """The verdict on an answer: a plan, a layout, a number with its unit, choices by their numbers. Without the name of a
        question, it is of the only one that such an answer can be for.

        Raises `DocumentError` where that is not plain.
        """
        return (self[question] if question else self.question_of(answer)).check(answer, attempt)

    def question_of(self, answer: Any) -> Question:
        """The question that an answer is for, by what it is. Raises `DocumentError` where that is not plain."""
        if len(self.questions) == 1:
            return self.questions[0]
        kinds = (PlanQuestion,) if isinstance(answer, Plan) else (NumberQuestion, ChoiceQuestion, PlanQuestion)
        found = [each for each in self.questions if isinstance(each, kinds)]
        if len(found) > 1 and isinstance(answer, Plan):
            found = [each for each in found if isinstance(each, PlanQuestion) and each.is_about(answer)] or found
        if len(found) != 1:
            names = ", ".join(f"`{each.name}`" for each in found or self.questions)
            raise DocumentError(f"`{self.name}` needs the name of the answered question: {names}.", ["name the question"])
        return found[0]

    def _repr_markdown_(self) -> str:
        return exercise_markdown(self.title, ((each.name, each.points, each.ask) for each in self.questions))

    __repr__ = _repr_markdown_  # that of a dataclass would show the answers


# Documents of exercises and of answers: JSON of a version and a schema, read as untrusted text.

VERSION = 1
EXERCISE, ANSWERS = "exercise", "answers"
KINDS = (EXERCISE, ANSWERS)
"""Kinds of documents; each says `"format": "sharding-workbench.KIND"`."""


def read_document(path: Path) -> str:
    """The text of a file. Raises `DocumentError` where it cannot be read."""
    try:
        return read_text(path)
    except OSError as error:
        raise DocumentError(f"`{path}` cannot be read: {error.strerror or error}.", ["check the path"]) from None
    except UnicodeDecodeError:
        raise DocumentError(f"`{path}` is not text in UTF-8.", ["choose a JSON file"]) from None


def parse_document(kind: str, text: str, name: str) -> Mapping[str, Any]:
    """The document as plain values, checked from the outside in: JSON, the kind, a version we know, the schema. Raises `DocumentError`."""
    verify_length(text, name, f"{kind} document")
    try:
        document = parse_json(text)
    except UnreadableError as error:
        raise DocumentError(f"{name} is not JSON: {error}.", ["fix it there"]) from None
    form = f"sharding-workbench.{kind}"
    if not isinstance(document, dict) or document.get("format") != form:
        raise DocumentError(
            f'{name} is JSON, but not a document of {_WORDS[kind]}: it lacks "format": "{form}".', [f'add "format": "{form}"']
        )
    version = document.get("version")
    if isinstance(version, int) and version > VERSION:
        raise DocumentError(
            f"{name} is of version {version}; this workbench reads up to version {VERSION}.",
            [f"install a newer workbench: {upgrade_advice()}"],
        )
    if problem := schema_problem(kind, document):
        raise DocumentError(f"{name} is not valid: at `{problem[0]}`, {problem[1]}.", ["fix that entry"])
    return document


_WORDS = {EXERCISE: "an exercise", ANSWERS: "answers"}
