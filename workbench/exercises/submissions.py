"""What a student hands in: a plan, a document of answers, or a folder of these. Nothing in it is run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import DocumentError, WorkbenchError
from workbench.exercises.exercise import Exercise
from workbench.exercises.exercise_document import ANSWERS, parse_document, read_document
from workbench.exercises.parse_answer import parse_answer
from workbench.exercises.plan_question import PlanQuestion

PLAN_ENDING, ANSWERS_ENDING = ".plan.json", ".answers.json"


@dataclass(frozen=True, slots=True)
class Submission:
    """The answers of one student: for each question by its name a plan's document, a layout, a number with its unit, or choices; and how
    often each was tried. `problem` is why what was handed in cannot be read."""

    name: str
    answers: Mapping[str, Any] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""


def read_submission(path: str | Path, exercise: Exercise, question: str = "") -> Submission:
    """A file or folder as the answers to an exercise. A plan is for the `question` that is named, else for that of the file's own name,
    else for the only one that it can be for. What cannot be read is said in `problem`: it is one student's, and others wait for theirs."""
    path = Path(path)
    name = path.name.removesuffix(PLAN_ENDING).removesuffix(ANSWERS_ENDING)
    answers: dict[str, Any] = {}
    attempts: dict[str, int] = {}
    try:
        for file in _files(path):
            if file.name.endswith(ANSWERS_ENDING):
                document = parse_document(ANSWERS, read_document(file), f"`{file.name}`")
                answers |= document["answers"]
                attempts |= document.get("attempts", {})
            else:
                answers[question or _question_of(file, exercise)] = read_document(file)
    except WorkbenchError as error:
        return Submission(name, answers, attempts, str(error))
    unknown = [each for each in answers if all(each != known.name for known in exercise.questions)]
    problem = f"There is no question `{unknown[0]}` in `{exercise.name}`." if unknown else ""
    return Submission(name, answers, attempts, problem)


def _files(path: Path) -> Iterator[Path]:
    """The documents of a submission, by name. Raises `DocumentError` where there are none."""
    if not path.is_dir():
        yield path
        return
    found = sorted(each for each in path.iterdir() if each.name.endswith((PLAN_ENDING, ANSWERS_ENDING)))
    if not found:
        raise DocumentError(
            f"`{path.name}` has no answers: no file ends with {PLAN_ENDING} or {ANSWERS_ENDING}.",
            ["hand in a plan, named after its question"],
        )
    yield from found


def _question_of(file: Path, exercise: Exercise) -> str:
    """The question that a plan's file is for."""
    stem = file.name.removesuffix(PLAN_ENDING)
    plans = [each for each in exercise.questions if isinstance(each, PlanQuestion)]
    if any(each.name == stem for each in plans):
        return stem
    if len(plans) == 1:
        return plans[0].name
    if not plans:
        raise DocumentError(f"`{exercise.name}` asks for no plan.", ["hand in a document of answers"])
    return exercise.question_of(parse_answer(read_document(file))).name
