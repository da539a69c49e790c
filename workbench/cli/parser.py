"""Argument parser of the command line."""

import argparse
from typing import Any

from workbench.cli.catalogue_command import add_calibrate, add_hardware_list, add_models
from workbench.cli.command_parser import SHELLS, CommandFunction, CommandParser
from workbench.cli.exercise_parser import add_grade, add_learn
from workbench.cli.search_parser import add_latency, add_plan, add_search
from workbench.cli.shared_arguments import (
    TERMS,
    add_allow,
    add_command,
    add_events,
    add_hardware,
    add_hardware_file,
    add_json,
    add_link,
    add_parser,
    add_time_limit,
    duration,
    positive,
)
from workbench.cli.team_parser import add_team_commands

_EPILOG = f"""\
{TERMS}
examples:
  workbench serve                                           open the workbench on a small GPT
  workbench serve --address 0.0.0.0 --origins plans.example.org:5006
                                                            the same, for other machines, under this host name
  workbench serve --fleet grid.toml                         the board of many models that share the devices
  workbench report --model gpt --mesh "data:4 model:2" --layout "batch:data; d_ff:model; heads:model"
                                                            memory, communication and compute per device
  workbench run my.plan.json --steps 20 --check             run it here, and compare the result with the unsharded step
  workbench compare my.plan.json --hardware "TPU v5e 4x4"   compile it for a TPU (none needed) and compare with the prediction
  workbench diff mine.plan.json theirs.plan.json            how two plans differ, and what that costs or saves
  workbench plan config.json --on "64 H100" --tokens 2T      whether a model fits on a cluster, how long it takes, and in which layouts
  workbench search my.plan.json --devices 256 --hardware "TPU v5p" --within 60s
                                                            the best plan on these chips, with a proof if time allows
  workbench export my.plan.json -o my_plan.py               export the plan as a JAX script; -o my_plan.html for a web page
  workbench grade exercise.json answer.plan.json            grade an answer to an exercise
  workbench push my.plan.json --project vision              add it to the gallery of a team server
"""


def make_parser() -> CommandParser:
    """The parser of all commands."""
    from workbench import __version__

    parser = CommandParser(
        prog="workbench",
        description="Choose how to shard a JAX program across GPUs or TPUs: see memory, communication and compute per device, then run it.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"workbench {__version__}")
    added = parser.add_verbs("COMMAND")
    for add in (
        _serve,
        _report,
        _run,
        _compile,
        _compare,
        _diff,
        _explain,
        _recipe,
        add_plan,
        add_search,
        add_latency,
        _fleet,
        add_grade,
        add_learn,
        _export,
        add_calibrate,
        add_models,
        add_hardware_list,
        add_team_commands,
        _completion,
    ):
        add(added)
    return parser


def _serve(added: Any) -> None:
    command = add_command(
        added,
        "serve",
        CommandFunction("serve_command", "serve"),
        "open the workbench in the browser",
        'workbench serve --model mnist --mesh "data:8"',
    )
    command.add_argument("--port", type=int, default=5006, help="port to listen on (default: %(default)s; 0 takes a free one)")
    command.add_argument(
        "--address",
        metavar="ADDRESS",
        help="address to listen on: 192.168.1.5, or 0.0.0.0 for all interfaces (default: 127.0.0.1, reachable from this machine only)",
    )
    command.add_argument(
        "--origins",
        metavar="HOST:PORT",
        action="append",
        default=[],
        help="a host and port under which other machines may open the page, such as plans.example.org:5006; all others are rejected; "
        "comma-separated or repeated",
    )
    command.add_argument("--no-open", action="store_true", help="do not open the browser")
    command.add_argument("--root", metavar="FOLDER", help="also open and save plan files of this folder, at ?file=NAME.plan.json")
    command.add_argument("--unix-socket", metavar="PATH", help="listen on this socket instead of a port, behind a proxy")
    command.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="maximum number of plans to run and to compile at once, over all boards; others are queued (default: one run, because two "
        "would slow each other down, and one compilation per two processors, at most 4)",
    )
    command.add_argument(
        "--time-limit", type=duration, metavar="SECONDS", help="stop a run or compilation after this many seconds (default: 1800)"
    )
    command.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="compile and search on a Ray cluster: ray://HOST:10001, or `auto` for the cluster of this machine",
    )
    command.add_argument("--exercise", metavar="FILE", help="show the questions of this exercise.json above the board")
    command.add_argument(
        "--lesson", nargs="?", const="", metavar="NAME", help="open a lesson next to its board (default: the page of all lessons)"
    )
    command.add_argument("--fleet", metavar="FILE", help="open the board of the models in this TOML or JSON file instead of a plan")


def _report(added: Any) -> None:
    command = add_command(
        added,
        "report",
        CommandFunction("commands", "report"),
        "print the memory, communication and compute of every device",
        "workbench report my.plan.json --json",
    )
    command.add_argument("--stage", type=int, metavar="N", help="report only this pipeline stage (0-based)")
    tier = command.add_mutually_exclusive_group()
    tier.add_argument(
        "--planned",
        action="store_true",
        help="print planned figures immediately (default: ask XLA's partitioner for the communication, which takes seconds the first time)",
    )
    tier.add_argument(
        "--compiled",
        action="store_true",
        help="also compile the plan, for its hardware or the attached devices, and report the compiler's memory and kernel times",
    )
    add_json(command)


def _run(added: Any) -> None:
    command = add_command(
        added,
        "run",
        CommandFunction("commands", "run"),
        "run a plan on the attached devices and measure it",
        "srun -n 2 workbench run my.plan.json",
    )
    command.add_argument("--steps", type=positive, default=20, help="steps to measure, after warm-up (default: %(default)s)")
    command.add_argument(
        "--check", action="store_true", help="also compare the result with the unsharded step; exits with 1 if it is wrong"
    )
    command.add_argument(
        "--profile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="profile one more step and print its kernels (default: yes; takes about half a second)",
    )
    command.add_argument("--distributed", action="store_true", help="this is one of several processes (detected under Slurm and Open MPI)")
    add_events(command)
    add_json(command, "; progress goes to stderr")


def _compile(added: Any) -> None:
    command = add_command(
        added,
        "compile",
        CommandFunction("commands", "compile_"),
        "compile a plan for its hardware, attached or not, and print the compiler's figures",
        'workbench compile my.plan.json --hardware "TPU v5e 4x4"',
    )
    add_time_limit(command)
    command.add_argument("--hlo", metavar="FILE", help="also write the scheduled HLO text to this file")
    command.add_argument("--no-cache", action="store_true", help="compile again, and store nothing on disk")
    add_events(command)
    add_json(command, "; progress goes to stderr")


def _compare(added: Any) -> None:
    command = add_command(
        added,
        "compare",
        CommandFunction("commands", "compare"),
        "compile a plan and compare every prediction with the compiler's figure, with the cause of each difference",
        'workbench compare my.plan.json --hardware "TPU v5e 4x4"',
    )
    command.add_argument("--run", action="store_true", help="also run the plan on the attached devices")
    command.add_argument("--steps", type=positive, default=20, help="steps to measure with --run (default: %(default)s)")
    add_time_limit(command)
    add_json(command, "; progress goes to stderr")


def _diff(added: Any) -> None:
    command = add_parser(
        added,
        "diff",
        "compare two plans: how they differ, and what that costs or saves",
        "workbench diff mine.plan.json theirs.plan.json",
        terms=True,
    )
    command.add_argument("before", metavar="A.plan.json", help="a saved plan")
    command.add_argument("after", metavar="B.plan.json", help="the saved plan to compare it with")
    add_hardware(command, "hardware for both plans (default: that of each plan)")
    add_link(command)
    add_hardware_file(command)
    add_allow(command)
    add_json(command)
    command.set_defaults(command=CommandFunction("commands", "diff"))


def _recipe(added: Any) -> None:
    command = add_command(
        added,
        "recipe",
        CommandFunction("recipe_command", "recipe"),
        "apply known layouts to a plan (data parallel, Megatron, ZeRO, ...), or list which apply",
        "workbench recipe my.plan.json data_parallel megatron zero_1 -o sharded.plan.json",
    )
    command.add_argument(
        "names", nargs="*", metavar="NAME", help="recipes to apply, in this order (default: list all, and whether each applies)"
    )
    command.add_argument(
        "--axis", metavar="AXIS", action="append", default=[], help="the mesh axis to use (default: chosen by its name); may be repeated"
    )
    command.add_argument("-o", "--output", metavar="FILE", help="also write the resulting plan")
    add_json(command)


def _fleet(added: Any) -> None:
    command = add_parser(
        added,
        "fleet",
        "train many models at once on the attached devices, or simulate it first",
        "workbench fleet run grid.toml --devices 2",
        "workbench fleet simulate grid.toml --devices 8 --policy all",
        'workbench fleet simulate grid.toml --hardware "8 H100"',
        description="Train many models at once, each divided into shards that fit on a device, or simulate this from units timed here.",
    )
    verbs = command.add_verbs("VERB")
    for name, function, text in (
        ("run", CommandFunction("fleet_command", "run"), "train the models, and print the measured and the predicted schedule"),
        (
            "simulate",
            CommandFunction("fleet_command", "simulate"),
            "time each unit on one device here, or plan it for given hardware, and print the schedule",
        ),
    ):
        verb = add_parser(verbs, name, text, f"workbench fleet {name} grid.toml --devices 2")
        verb.add_argument("file", metavar="FILE", help="the models to train, in TOML or JSON")
        verb.add_argument(
            "--devices", type=positive, metavar="N", help="number of devices (default: that of the file, else all attached devices)"
        )
        add_hardware(verb, 'hardware to plan for, attached or not: "8 H100" (default: that of the file, else the attached devices)')
        add_link(verb)
        add_hardware_file(verb)
        verb.add_argument("--memory", metavar="TEXT", help='memory limit per device: "2 GiB"')
        several = ", `all`, or `exact` for the optimum of a small case" if name == "simulate" else ""
        verb.add_argument("--policy", metavar="NAME", help=f"scheduling policy: sharded-lrtf, round-robin, ...{several}")
        if name == "run":
            verb.add_argument("--folder", metavar="DIR", help="folder for checkpoints; training resumes from the checkpoint in it")
            verb.add_argument(
                "--follow", action="store_true", help="watch FILE: start models that are added to it, stop models that are removed"
            )
        add_allow(verb)
        add_json(verb, "; progress goes to stderr")
        verb.set_defaults(command=function)


def _export(added: Any) -> None:
    command = add_command(
        added,
        "export",
        CommandFunction("commands", "export"),
        "write a plan as a JAX script, web page, Perfetto trace, picture or plan file",
        "workbench export my.plan.json -o my_plan.html",
    )
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="file to write; its suffix sets the form: .py script, .html web page, .trace.json trace for ui.perfetto.dev, .png or .svg "
        "picture of the board, .plan.json plan (default: standard output)",
    )
    command.add_argument(
        "--form",
        metavar="FORM",
        help="the form to write, if the suffix does not say: script, specs, rules, maxtext, html, trace, png, svg, plan",
    )
    tier = command.add_mutually_exclusive_group()
    tier.add_argument("--planned", action="store_true", help="use planned figures (default: ask XLA's partitioner)")
    tier.add_argument(
        "--compiled", action="store_true", help="also compile the plan; a trace then has the compiler's kernels next to the predicted ones"
    )
    command.add_argument("--run", action="store_true", help="also run the plan here; a page or trace then includes the measurement")
    command.add_argument("--steps", type=positive, default=20, help="steps to measure with --run (default: %(default)s)")


def _explain(added: Any) -> None:
    command = add_command(
        added,
        "explain",
        CommandFunction("commands", "explain"),
        "explain the sharding of a value: the source of each axis, the operations it came through, and rejected axes",
        "workbench explain my.plan.json mlp/up/dot_general",
    )
    command.add_argument(
        "value",
        nargs="?",
        metavar="VALUE",
        help="a path, pattern or source line (gpt.py:42); default: all conflicts and how they were decided",
    )
    command.add_argument("--steps", action="store_true", help="print all propagation steps")
    command.add_argument("--fewest", action="store_true", help="print a smallest layout that gives every value the same sharding")
    add_json(command)


def _completion(added: Any) -> None:
    command = add_parser(
        added,
        "completion",
        "print the shell code that completes commands, options and hardware",
        'eval "$(workbench completion bash)"      # in ~/.bashrc; zsh in ~/.zshrc',
        "workbench completion fish > ~/.config/fish/completions/workbench.fish",
    )
    command.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    command.set_defaults(command=CommandFunction("command_parser", "print_completion"))
