"""Grading: what a student hands in, the verdict on each answer, its score, and records of it for people, programs and Gradescope."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import DocumentError, WorkbenchError
from workbench.exercises.exercise import ANSWERS, Exercise, parse_document, read_document
from workbench.exercises.parse_questions import Question
from workbench.exercises.plan_question import PlanQuestion
from workbench.exercises.variants import parse_answer
from workbench.exercises.verdict import Check, Verdict, refusal

# What a student hands in: a plan, a document of answers, or a folder of these. Nothing in it is run.


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
            f"`{path.name}` has no answers: no file name ends with {PLAN_ENDING} or {ANSWERS_ENDING}.",
            ["submit a plan named after its question"],
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
        raise DocumentError(f"`{exercise.name}` asks for no plan.", ["submit a document of answers"])
    return exercise.question_of(parse_answer(read_document(file))).name


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdicts on one submission, by the names of the questions in their order; `problem` is why some of it could not be read."""

    submission: str
    verdicts: Mapping[str, Verdict]
    problem: str = ""

    @property
    def score(self) -> float:
        return sum(each.score for each in self.verdicts.values())

    @property
    def most(self) -> float:
        return sum(each.most for each in self.verdicts.values())

    def __str__(self) -> str:
        lines = [f"{self.submission}: {self.score:g} of {self.most:g}", *([f"  {self.problem}"] if self.problem else [])]
        for name, verdict in self.verdicts.items():
            lines.append(f"  {name}: {verdict.score:g} of {verdict.most:g}")
            lines += [f"    - {reason}" for reason in verdict.reasons]
            lines += [f"    Hint: {hint}" for hint in verdict.hints]
        return "\n".join(lines)


def grade(exercise: Exercise, submission: Submission, attempt: int = 1) -> Grade:
    """The grade of a submission: the same each time, by the plans alone. A question without an answer is worth nothing. `attempt` is the
    number of the try where the submission does not say it."""
    verdicts = {each.name: _judge(each, submission, attempt) for each in exercise.questions}
    return Grade(submission.name, verdicts, submission.problem)


def _judge(question: Question, submission: Submission, attempt: int) -> Verdict:
    if question.name not in submission.answers:
        return refusal(("No answer.",), question.points)
    answer, attempt = submission.answers[question.name], submission.attempts.get(question.name, attempt)
    try:
        if isinstance(question, PlanQuestion) and _is_document(answer):
            answer = parse_answer(answer)
        return question.check(answer, attempt)
    except WorkbenchError as error:
        return refusal((str(error),), question.points)


def _is_document(answer: Any) -> bool:
    """Whether an answer is a plan's document, and no layout."""
    return isinstance(answer, Mapping) or (isinstance(answer, str) and answer.lstrip().startswith("{"))


def grade_record(graded: Grade) -> dict[str, Any]:
    """The grade as plain values."""
    return {
        "submission": graded.submission,
        "score": graded.score,
        "most": graded.most,
        **({"problem": graded.problem} if graded.problem else {}),
        "questions": [
            {"name": name, "score": verdict.score, "most": verdict.most, **verdict_record(verdict)}
            for name, verdict in graded.verdicts.items()
        ],
    }


def verdict_record(verdict: Verdict) -> dict[str, Any]:
    """The checks of a verdict and its hints, as plain values."""
    return {"checks": [_check_record(each) for each in verdict.checks], "hints": list(verdict.hints)}


def _check_record(check: Check) -> dict[str, Any]:
    return {"what": check.what, "is_met": check.is_met, "reason": check.reason, "points": check.points, "hidden": check.hidden}


def gradescope_record(graded: Grade) -> dict[str, Any]:
    """The grade as Gradescope reads it from `results.json`: a test for each check; those of hidden variants are shown after the due date
    (gradescope-autograders.readthedocs.io, "Output Format")."""
    tests = [
        {
            "name": f"{name}: {check.what}",
            "score": check.points if check.is_met else 0.0,
            "max_score": check.points,
            "status": "passed" if check.is_met else "failed",
            "output": "\n".join(filter(None, (check.reason, *(verdict.hints if not check.is_met else ())))),
            "visibility": "after_due_date" if check.hidden else "visible",
        }
        for name, verdict in graded.verdicts.items()
        for check in verdict.checks
    ]
    return {"score": graded.score, **({"output": graded.problem} if graded.problem else {}), "tests": tests}
