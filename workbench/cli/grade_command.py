"""`workbench grade`: grade answers to an exercise. Answers are planned, never run."""

import argparse
import json
from pathlib import Path

from workbench.documents.durable_files import explain_write_errors, replace_file
from workbench.errors import DocumentError
from workbench.exercises import grading
from workbench.exercises.exercise import Exercise
from workbench.exercises.verify_exercise import verify_exercise
from workbench.tracing.jax_backends import force_cpu_backend


def grade(options: argparse.Namespace) -> None:
    """Grade submissions independently of each other."""
    force_cpu_backend()
    if options.check:
        _check_exercise(options)
        return
    count = len(options.submissions) + bool(options.answer)
    if not count:
        raise DocumentError(
            "There is nothing to grade.", ["give a plan file", "give --answer NAME=VALUE", "give --check to check the exercise itself"]
        )
    if options.format == "gradescope" and count != 1:
        raise DocumentError("Gradescope accepts the result of one submission.", ["give one submission", "use --format json"])
    exercise = Exercise.load(options.exercise)
    if options.question:
        exercise[options.question]  # one that there is not is an error before anything is graded
    given = [grading.Submission("answers", dict(_pair(each) for each in options.answer))] if options.answer else []
    submissions = [*given, *(grading.read_submission(each, exercise, options.question) for each in options.submissions)]
    grades = [grading.grade(exercise, each, options.attempt) for each in submissions]
    if options.format == "gradescope":
        _write(json.dumps(grading.gradescope_record(grades[0]), indent=1), options.output)
    elif options.format == "json":
        record = {"exercise": exercise.name, "most": exercise.points, "grades": [grading.grade_record(each) for each in grades]}
        _write(json.dumps(record, indent=1), options.output)
    else:
        _write("\n".join([f"{exercise.title} ({exercise.name}), {exercise.points:g} points", *map(str, grades)]), options.output)


def _check_exercise(options: argparse.Namespace) -> None:
    """Check that the exercise can be answered, for its author."""
    if options.submissions or options.answer:
        raise DocumentError("--check checks the exercise and grades no answers.", ["leave out --check", "leave out the answers"])
    exercise = Exercise.load(options.exercise)
    verify_exercise(exercise)
    count = len(exercise.questions)
    text = f"{exercise.title} ({exercise.name}): {count} question{'s' * (count != 1)}, each of which can be answered at every size"
    _write(text, options.output)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise DocumentError(f"`{text[:80]}` does not name a question.", ["write --answer NAME=VALUE"])
    return name.strip(), value.strip()


def _write(text: str, path: str | None) -> None:
    if path is None:
        print(text)
        return
    with explain_write_errors(path, DocumentError):
        replace_file(Path(path), f"{text}\n".encode())
