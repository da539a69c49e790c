"""Grading a class: 60 submissions to each lesson, by `workbench grade` in a process of its own, which begins with nothing in memory.

Each student answers every question, in turn with one of the answers that `lessons/NAME/answers.json` knows, right and wrong; plans are
handed in as documents with names of their own. `seconds` is the slowest lesson's, imports and tracing included; `same_score_twice` says
whether two runs gave the same records.

    python benchmarks/grading.py [--quick] [--json]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from tests.exercises.test_lessons import as_answer
from workbench.documents import dump_plan
from workbench.errors import WorkbenchError
from workbench.exercises import Exercise, PlanQuestion

ROOT = Path(__file__).parents[1]
LESSONS = ROOT / "lessons"
STUDENTS = 60


def handed_in(exercise: Exercise, known: dict[str, Any], student: int) -> dict[str, Any]:
    """The answers of one student, by the names of the questions."""
    return {name: _answer(exercise[name], each, student) for name, each in known.items()}


def _answer(question: Any, known: dict[str, Any], student: int) -> Any:
    answers = [*known["accepted"], *(each["answer"] for each in known["rejected"])]
    given = answers[student % len(answers)]
    if not isinstance(question, PlanQuestion):
        return given
    try:
        plan = as_answer(question, given if isinstance(given, dict) else {"layout": given})
        return json.loads(dump_plan(plan.updated(name=f"by student {student}")))
    except WorkbenchError:  # no plan: it is handed in as it is
        return given if isinstance(given, str) else given.get("layout", "")


def write_class(folder: Path, lesson: Path, students: int) -> list[str]:
    """The folders of a class's submissions."""
    exercise = Exercise.load(lesson / "exercise.json")
    known = json.loads((lesson / "answers.json").read_text(encoding="utf-8"))
    for student in range(students):
        own = folder / f"student_{student}"
        own.mkdir()
        document = {"format": "sharding-workbench.answers", "version": 1, "answers": handed_in(exercise, known, student)}
        (own / "all.answers.json").write_text(json.dumps(document), encoding="utf-8")
    return [str(folder / f"student_{each}") for each in range(students)]


def grade(lesson: Path, submissions: list[str]) -> tuple[float, dict[str, Any]]:
    """Seconds of a new process that grades them, and its record."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "workbench", "grade", str(lesson / "exercise.json"), *submissions, "--format", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return time.perf_counter() - start, json.loads(done.stdout)


def measure(lesson: Path, students: int) -> dict[str, Any]:
    """One lesson's class, graded twice."""
    with tempfile.TemporaryDirectory() as folder:
        submissions = write_class(Path(folder), lesson, students)
        (seconds, first), (again, second) = grade(lesson, submissions), grade(lesson, submissions)
    scores = [each["score"] for each in first["grades"]]
    print(
        f"{lesson.name}: {seconds:.1f} s and {again:.1f} s, scores {min(scores):g} to {max(scores):g} of {first['most']:g}", file=sys.stderr
    )
    return {"lesson": lesson.name, "seconds": max(seconds, again), "same": first == second, "mean_score": sum(scores) / len(scores)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two lessons, ten students")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    lessons = sorted(each.parent for each in LESSONS.glob("*/exercise.json"))
    rows = [measure(each, 10 if options.quick else STUDENTS) for each in (lessons[:2] if options.quick else lessons)]
    slowest = max(rows, key=lambda row: row["seconds"])
    record = {
        "seconds": round(slowest["seconds"], 2),
        "slowest": slowest["lesson"],
        "same_score_twice": all(row["same"] for row in rows),
        "lessons": len(rows),
        "students": 10 if options.quick else STUDENTS,
    }
    print(json.dumps(record) if options.json else record)


if __name__ == "__main__":
    main()
