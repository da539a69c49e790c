"""Exercises and their documents, which are parsed as untrusted text.

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
from workbench.errors import DocumentError, explain_read_errors, unknown_name, wrong_type
from workbench.exercises.choice_question import ChoiceQuestion
from workbench.exercises.number_question import NumberQuestion
from workbench.exercises.parse_questions import Question, parse_question
from workbench.exercises.plan_question import PlanQuestion
from workbench.exercises.verdict import Verdict, exercise_markdown
from workbench.plan.plan import Plan
from workbench.public_plan import Plan as PublicPlan


@dataclass(frozen=True, slots=True)
class Exercise:
    """The exercise of a lesson: `questions` in order, with unique names; `sections` of the board that it needs, empty for all."""

    name: str
    title: str
    questions: tuple[Question, ...]
    sections: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: str | Path) -> "Exercise":
        """Read `exercise.json` without building its plans. Raises `DocumentError` if it is not an exercise."""
        if not isinstance(path, str | Path):
            raise DocumentError(wrong_type("path", path, "the path of a file"), ['write "lessons/one_product/exercise.json"'])
        return cls.parse(read_document(Path(path)), f"`{path}`")

    @classmethod
    def parse(cls, text: str, name: str = "The text") -> "Exercise":
        """Parse an exercise document; `name` identifies it in errors. Raises `DocumentError`."""
        document = parse_document("exercise", text, name)
        plans = document.get("plans", {})
        questions = tuple(parse_question(entry, plans, name) for entry in document["questions"])
        names = [entry.name for entry in questions]
        if repeated := next((entry for entry in names if names.count(entry) > 1), None):
            raise DocumentError(f"{name} has two questions `{repeated}`.", ["rename one of them"])
        return cls(document["name"], document["title"], questions, tuple(document.get("sections", ())))

    @property
    def points(self) -> float:
        """The points of all questions together."""
        return sum(question.points for question in self.questions)

    @property
    def first_plan(self) -> PublicPlan:
        """The plan of the first plan question. Raises `DocumentError` if there is none or it cannot be read."""
        first = next((question for question in self.questions if isinstance(question, PlanQuestion)), None)
        if first is None:
            raise DocumentError(f"`{self.name}` does not ask for a plan, so there is nothing to load.", ["pass a plan to the board"])
        return first.plan

    def __getitem__(self, name: str) -> Question:
        """The question with this name. Raises `DocumentError` if there is none."""
        match = next((question for question in self.questions if question.name == name), None)
        if match is None:
            raise DocumentError(*unknown_name("question", name, (question.name for question in self.questions), f" in `{self.name}`"))
        return match

    def check(self, answer: Any, question: str = "", attempt: int = 1) -> Verdict:
        """The verdict on an answer: a plan, a layout, a number with its unit, or choices by number.

        Without `question`, its kind determines the question. Raises `DocumentError` if that is ambiguous.
        """
        return (self[question] if question else self.question_of(answer)).check(answer, attempt)

    def question_of(self, answer: Any) -> Question:
        """The question that an answer is for, by its kind. Raises `DocumentError` if that is ambiguous."""
        if len(self.questions) == 1:
            return self.questions[0]
        kinds = (PlanQuestion,) if isinstance(answer, Plan) else (NumberQuestion, ChoiceQuestion, PlanQuestion)
        matches = [item for item in self.questions if isinstance(item, kinds)]
        if len(matches) > 1 and isinstance(answer, Plan):
            matches = [item for item in matches if isinstance(item, PlanQuestion) and item.is_about(answer)] or matches
        if len(matches) != 1:
            names = ", ".join(f"`{item.name}`" for item in matches or self.questions)
            raise DocumentError(f"`{self.name}` needs the name of the answered question: {names}.", ["name the question"])
        return matches[0]

    def _repr_markdown_(self) -> str:
        return exercise_markdown(self.title, ((question.name, question.points, question.ask) for question in self.questions))

    __repr__ = _repr_markdown_  # the dataclass repr would show the answers


# Documents of exercises and of answers: versioned JSON with a schema, parsed as untrusted text.

VERSION = 1
EXERCISE, ANSWERS = "exercise", "answers"
KINDS = (EXERCISE, ANSWERS)
"""Kinds of documents; each has `"format": "sharding-workbench.KIND"`."""


def read_document(path: Path) -> str:
    """The text of a file. Raises `DocumentError` if it cannot be read."""
    with explain_read_errors(path, DocumentError(f"`{path}` is not text in UTF-8.", ["choose a JSON file"])):
        return read_text(path)


def parse_document(kind: str, text: str, name: str) -> Mapping[str, Any]:
    """Parse and validate a document: JSON, format, version, schema, in this order. Raises `DocumentError`."""
    verify_length(text, name, f"{kind} document")
    try:
        document = parse_json(text)
    except UnreadableError as error:
        raise DocumentError(f"{name} is not JSON: {error}.", ["fix it there"]) from None
    form = f"sharding-workbench.{kind}"
    if not isinstance(document, dict) or document.get("format") != form:
        raise DocumentError(f'{name} is JSON, but not {_WORDS[kind]}: it lacks "format": "{form}".', [f'add "format": "{form}"'])
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
