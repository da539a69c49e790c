"""Grading: files and folders of answers, each apart from the others; the same score twice; and the command line."""

import json
import subprocess
import sys

import pytest

from tests.exercises.test_exercise_documents import PRODUCT, document
from workbench.cli.main import main
from workbench.documents import dump_plan
from workbench.exercises import Exercise
from workbench.exercises.grading import Submission, grade, grade_record, gradescope_record, read_submission

pytestmark = pytest.mark.compile

RIGHT, WRONG = (dump_plan(PRODUCT.updated(layout=layout)) for layout in ("I:x; K:y", "J:x"))
ONE = Exercise.parse(json.dumps(document()))


def answers(**given) -> str:
    return json.dumps({"format": "sharding-workbench.answers", "version": 1, **given})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "exercise.json").write_text(json.dumps(document()), encoding="utf-8")
    ada, bob = tmp_path / "ada", tmp_path / "bob"
    for each in (ada, bob):
        each.mkdir()
    (ada / "split.plan.json").write_text(RIGHT)
    (ada / "rest.answers.json").write_text(answers(answers={"bytes": "1.25 MiB", "which": 2}))
    (bob / "mine.plan.json").write_text(WRONG)
    (bob / "rest.answers.json").write_text(answers(answers={"bytes": "10 MiB"}, attempts={"split": 2}))
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.plan.json").write_text("{")
    return tmp_path


def test_a_folder_is_graded_by_its_files(folder):
    ada = grade(ONE, read_submission(folder / "ada", ONE))
    assert (ada.submission, ada.score, ada.most, ada.problem) == ("ada", 6, 6, "")
    assert str(ada) == "ada: 6 of 6\n  split: 4 of 4\n  bytes: 1 of 1\n  which: 1 of 1"


def test_what_is_wrong_is_told_by_question_with_the_hints_of_its_attempt(folder):
    bob = grade(ONE, read_submission(folder / "bob", ONE))
    assert (bob.score, bob.most) == (0, 6)
    assert bob.verdicts["split"].hints == ("Which dimension is summed over?", "Try both rows and columns.")
    assert "That is 8 times as much" in bob.verdicts["bytes"].reasons[0]
    assert bob.verdicts["which"].reasons == ("No answer.",)


@pytest.mark.parametrize(("name", "said"), [("empty", "has no answers"), ("none.plan.json", "cannot be read: No such file")])
def test_what_cannot_be_read_is_a_problem_of_one_submission(folder, name, said):
    submission = read_submission(folder / name, ONE)
    assert said in submission.problem
    assert grade(ONE, submission).score == 0


def test_a_plan_that_is_none_is_worth_nothing(folder):
    found = grade(ONE, read_submission(folder / "broken.plan.json", ONE))
    assert "is not JSON" in found.verdicts["split"].reasons[0]


def test_an_answer_to_no_question_is_named():
    assert "no question `splt`" in grade(ONE, Submission("eve", {"splt": "I:x"}, problem="There is no question `splt`")).problem


def test_a_submission_names_no_program_of_a_module():
    plan = {**json.loads(RIGHT), "program": {"target": "os:system", "arguments": {"command": "true"}}}
    found = grade(ONE, Submission("eve", {"split": plan}))
    assert found.score == 0
    assert "os:system" in found.verdicts["split"].reasons[0]


def test_the_same_answers_have_the_same_grade_twice(folder):
    first, second = (grade_record(grade(ONE, read_submission(folder / "bob", ONE))) for _ in range(2))
    assert first == second


def test_gradescope_reads_a_test_for_each_check(folder):
    record = gradescope_record(grade(ONE, read_submission(folder / "ada", ONE)))
    assert record["score"] == 6
    assert [(each["max_score"], each["visibility"]) for each in record["tests"]] == [
        (1, "visible"),
        (2, "visible"),
        (1, "after_due_date"),
        (1, "visible"),
        (1, "visible"),
    ]
    assert all(each["status"] == "passed" for each in record["tests"])


def test_the_command_grades_many(folder, capsys):
    assert main(["grade", str(folder / "exercise.json"), str(folder / "ada"), str(folder / "bob"), "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [(each["submission"], each["score"]) for each in record["grades"]] == [("ada", 6), ("bob", 0)]
    assert record["most"] == 6


def test_the_command_takes_answers_on_its_line(folder, capsys):
    assert main(["grade", str(folder / "exercise.json"), "--answer", "which=J", "--answer", "split=I:x"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("One product (one_product), 6 points\nanswers: ")
    assert "which: 1 of 1" in printed
    assert "Products are computed 2.00 times" in printed


def test_the_command_writes_what_gradescope_reads(folder, capsys):
    out = folder / "results.json"
    assert main(["grade", str(folder / "exercise.json"), str(folder / "ada"), "--format", "gradescope", "-o", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(out.read_text())["score"] == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "There is nothing to grade."),
        (["a", "b", "--format", "gradescope"], "Gradescope accepts the result of one submission."),
        (["a", "--question", "splt"], "There is no question `splt` in `one_product`"),
        (["--answer", "which"], "`which` does not name a question."),
        (["--answer", "which=J", "-o", "/none/there"], "`/none/there` cannot be written: No such file or directory."),
    ],
)
def test_what_the_command_cannot_do_is_said(folder, capsys, arguments, said):
    assert main(["grade", str(folder / "exercise.json"), *arguments]) == 1
    assert said in capsys.readouterr().err


READS = """
import sys
from pathlib import Path

from workbench.cli.main import main

opened = []
sys.addaudithook(lambda event, arguments: opened.append(arguments[0]) if event == "open" else None)
assert main(["grade", f"{sys.argv[1]}/exercise.json", f"{sys.argv[1]}/ada", "--format", "json"]) == 0
found = (Path(each) for each in opened if isinstance(each, str))
documents = {each.name for each in found if each.suffix == ".json" and "site-packages" not in each.parts}  # those are of JSON Schema itself
print(sorted(documents), file=sys.stderr)
"""


def test_no_document_is_read_but_the_exercise_the_answers_and_the_schemas(folder):
    done = subprocess.run([sys.executable, "-c", READS, str(folder)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["grades"][0]["score"] == 6
    schemas = ["answers.schema.json", "exercise.schema.json", "plan.schema.json"]
    assert done.stderr.splitlines()[-1] == str(sorted(["exercise.json", "rest.answers.json", "split.plan.json", *schemas]))
