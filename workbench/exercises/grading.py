"""Grading of submissions: verdicts, scores, and records for people, programs and Gradescope."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import DocumentError, WorkbenchError
from workbench.exercises.exercise import ANSWERS, Exercise, parse_document, read_document
from workbench.exercises.parse_questions import Question
from workbench.exercises.plan_question import PlanQuestion
from workbench.exercises.variants import parse_answer
from workbench.exercises.verdict import Verdict, refusal

# A submission is a plan, a document of answers, or a folder of these. No code in it is executed.


PLAN_ENDING, ANSWERS_ENDING = ".plan.json", ".answers.json"


@dataclass(frozen=True, slots=True)
class Submission:
    """The answers of one student by question name; `problem` states why the submission cannot be read.

    An answer is a plan document, a layout, a number with its unit, or choices.
    """

    name: str
    answers: Mapping[str, Any] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""


def read_submission(path: str | Path, exercise: Exercise, question: str = "") -> Submission:
    """Read a file or folder as the answers to an exercise; read errors go to `problem`.

    A plan answers `question` if given, else the question named like the file, else the only possible one.
    """
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
    unknown = [answered for answered in answers if all(answered != item.name for item in exercise.questions)]
    problem = f"There is no question `{unknown[0]}` in `{exercise.name}`." if unknown else ""
    return Submission(name, answers, attempts, problem)


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    files = sorted(file for file in path.iterdir() if file.name.endswith((PLAN_ENDING, ANSWERS_ENDING)))
    if not files:
        raise DocumentError(
            f"`{path.name}` has no answers: no file name ends with {PLAN_ENDING} or {ANSWERS_ENDING}.",
            ["submit a plan named after its question"],
        )
    yield from files


def _question_of(file: Path, exercise: Exercise) -> str:
    stem = file.name.removesuffix(PLAN_ENDING)
    plans = [plan_question for plan_question in exercise.questions if isinstance(plan_question, PlanQuestion)]
    if any(plan_question.name == stem for plan_question in plans):
        return stem
    if len(plans) == 1:
        return plans[0].name
    if not plans:
        raise DocumentError(f"`{exercise.name}` asks for no plan.", ["submit a document of answers"])
    return exercise.question_of(parse_answer(read_document(file))).name


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdicts on one submission, by question in order; `problem` states why part of it could not be read."""

    submission: str
    verdicts: Mapping[str, Verdict]
    problem: str = ""

    @property
    def score(self) -> float:
        return sum(verdict.score for verdict in self.verdicts.values())

    @property
    def most(self) -> float:
        return sum(verdict.most for verdict in self.verdicts.values())

    def __str__(self) -> str:
        lines = [f"{self.submission}: {self.score:g} of {self.most:g}", *([f"  {self.problem}"] if self.problem else [])]
        for name, verdict in self.verdicts.items():
            lines.append(f"  {name}: {verdict.score:g} of {verdict.most:g}")
            lines += [f"    - {reason}" for reason in verdict.reasons]
            lines += [f"    Hint: {hint}" for hint in verdict.hints]
        return "\n".join(lines)


def grade(exercise: Exercise, submission: Submission, attempt: int = 1) -> Grade:
    """Grade a submission deterministically; missing answers score 0, and `attempt` applies where none is recorded."""
    verdicts = {question.name: _judge(question, submission, attempt) for question in exercise.questions}
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
    return isinstance(answer, Mapping) or (isinstance(answer, str) and answer.lstrip().startswith("{"))


def grade_record(graded: Grade) -> dict[str, Any]:
    """The grade as JSON values."""
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
    """The checks and hints of a verdict as JSON values."""
    names = ("what", "is_met", "reason", "points", "hidden")
    return {"checks": [{name: getattr(check, name) for name in names} for check in verdict.checks], "hints": list(verdict.hints)}


def gradescope_record(graded: Grade) -> dict[str, Any]:
    """The grade as `results.json` of Gradescope; hidden variants become visible after the due date.

    Format: gradescope-autograders.readthedocs.io, "Output Format".
    """
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
