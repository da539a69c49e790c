"""The arguments of `workbench grade` and `workbench learn`."""

from typing import Any

from workbench.cli.command_parser import CommandFunction
from workbench.cli.shared_arguments import add_json, add_parser, positive

FORMS = ("text", "json", "gradescope")


def add_grade(added: Any) -> None:
    command = add_parser(
        added,
        "grade",
        "check answers to an exercise: what each meets, what it misses, and its points",
        "workbench grade exercise.json answer.plan.json",
        "workbench grade exercise.json submissions/* --format json",
        "workbench grade exercise.json --check",
        description="Check answers to an exercise. An answer carries no code; it is planned, and never run. A submission is a plan file, a "
        "document of answers (*.answers.json), or a folder of these; a plan answers the question that its file is named after, "
        "QUESTION.plan.json.",
    )
    command.add_argument("exercise", metavar="EXERCISE.json", help="the exercise")
    command.add_argument("submissions", metavar="SUBMISSION", nargs="*", help="a plan file, a document of answers, a folder of these")
    command.add_argument(
        "--answer", metavar="NAME=VALUE", action="append", default=[], help="an answer by the name of its question; may be repeated"
    )
    command.add_argument("--question", default="", metavar="NAME", help="the question that plans answer (default: by their file names)")
    command.add_argument("--attempt", type=positive, default=1, metavar="N", help="which try it is: each but the first earns a hint")
    command.add_argument(
        "--check", action="store_true", help="plan the exercise itself, in all its variants: is there one that refuses every answer?"
    )
    command.add_argument("--format", choices=FORMS, default="text", help="how to write it (default: %(default)s); gradescope: results.json")
    command.add_argument("-o", "--output", metavar="FILE", help="file to write (default: standard output)")
    command.set_defaults(command=CommandFunction("grade_command", "grade"))


def add_learn(added: Any) -> None:
    command = add_parser(
        added,
        "learn",
        "list the lessons and notebooks, or copy one and print how to open it",
        "workbench learn",
        "workbench learn one_product",
        "workbench learn 02_pipeline --to notebooks",
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="a lesson or notebook (default: list all)")
    command.add_argument("--to", metavar="FOLDER", help="folder to make for the copy (default: NAME)")
    add_json(command)
    command.set_defaults(command=CommandFunction("learn_command", "learn"))
