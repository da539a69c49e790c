"""Arguments of `workbench grade` and `workbench learn`."""

from typing import Any

from workbench.cli.command_parser import CommandFunction
from workbench.cli.shared_arguments import add_json, add_parser, positive

FORMS = ("text", "json", "gradescope")


def add_grade(added: Any) -> None:
    command = add_parser(
        added,
        "grade",
        "grade answers to an exercise: conditions met, conditions missed, points",
        "workbench grade exercise.json answer.plan.json",
        "workbench grade exercise.json submissions/* --format json",
        "workbench grade exercise.json --check",
        description="Grade answers to an exercise. An answer contains no code: it is planned and never run. A submission is a plan file, a "
        "document of answers (*.answers.json), or a folder of both. The name of a plan file, QUESTION.plan.json, says which question it "
        "answers.",
    )
    command.add_argument("exercise", metavar="EXERCISE.json", help="the exercise")
    command.add_argument("submissions", metavar="SUBMISSION", nargs="*", help="a plan file, a document of answers, or a folder of both")
    command.add_argument("--answer", metavar="NAME=VALUE", action="append", default=[], help="answer to the question NAME; may be repeated")
    command.add_argument(
        "--question", default="", metavar="NAME", help="the question that the plans answer (default: taken from their file names)"
    )
    command.add_argument(
        "--attempt", type=positive, default=1, metavar="N", help="number of this attempt; later attempts get hints (default: %(default)s)"
    )
    command.add_argument(
        "--check", action="store_true", help="check the exercise itself: whether every question can be answered in every variant"
    )
    command.add_argument(
        "--format", choices=FORMS, default="text", help="output format; gradescope writes results.json (default: %(default)s)"
    )
    command.add_argument("-o", "--output", metavar="FILE", help="file to write (default: standard output)")
    command.set_defaults(command=CommandFunction("grade_command", "grade"))


def add_learn(added: Any) -> None:
    command = add_parser(
        added,
        "learn",
        "list the lessons and notebooks, open a lesson next to a board, or copy one as a notebook",
        "workbench learn --open",
        "workbench learn one_product",
        "workbench learn 02_pipeline --to notebooks",
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="a lesson or notebook (default: list all)")
    command.add_argument("--open", action="store_true", help="open the lesson in the browser; without NAME, the page of all lessons")
    command.add_argument("--to", metavar="FOLDER", help="folder to create for the copy (default: NAME)")
    add_json(command)
    command.set_defaults(command=CommandFunction("learn_command", "learn"), serve=added.choices["serve"])
