"""The argument parser of the command line."""

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
                                                            the same, for others who reach this machine by that name
  workbench serve --fleet grid.toml                         the board of many models that share the devices
  workbench report --model gpt --mesh "data:4 model:2" --layout "batch:data; d_ff:model; heads:model"
                                                            what every device would hold, send and compute
  workbench run my.plan.json --steps 20 --check             run it here, and check the result against the unsharded step
  workbench compare my.plan.json --hardware "TPU v5e 4x4"   what its compiler makes of it, beside the prediction; no TPU is needed
  workbench diff mine.plan.json theirs.plan.json            what two plans decide otherwise, and what it costs or saves
  workbench plan config.json --on "64 H100" --tokens 2T      whether a model fits on a cluster, how long it takes, with which layouts
  workbench search my.plan.json --devices 256 --hardware "TPU v5p" --within 60s
                                                            the best way to lay its program out over them, proved where time allows
  workbench export my.plan.json -o my_plan.py               the same plan as a JAX script; as a page to mail, -o my_plan.html
  workbench grade exercise.json answer.plan.json            what an answer to an exercise meets, misses and is worth
  workbench push my.plan.json --project vision              put it into the gallery of a team's server
"""


def make_parser() -> CommandParser:
    """The whole command line, a subcommand for each thing it does."""
    from workbench import __version__

    parser = CommandParser(
        prog="workbench",
        description="Choose how to shard a JAX program across GPUs or TPUs: see what each device holds, sends and computes, then run it.",
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
        CommandFunction("commands", "serve"),
        "open the workbench in the browser",
        'workbench serve --model mnist --mesh "data:8"',
    )
    command.add_argument("--port", type=int, default=5006, help="port to listen on (default: %(default)s; 0 takes a free one)")
    command.add_argument(
        "--address",
        metavar="ADDRESS",
        help="address of this machine to listen at, for others to reach: 192.168.1.5, or 0.0.0.0 for all (default: 127.0.0.1, this machine "
        "alone)",
    )
    command.add_argument(
        "--origins",
        metavar="HOST:PORT",
        action="append",
        default=[],
        help="a host and port by which others reach the page, such as plans.example.org:5006; others get no answer; several with commas, "
        "or repeated",
    )
    command.add_argument("--no-open", action="store_true", help="do not open the browser")
    command.add_argument("--root", metavar="FOLDER", help="also open and save the plan files of this folder, at ?file=NAME.plan.json")
    command.add_argument("--unix-socket", metavar="PATH", help="listen at this socket instead of a port, behind a proxy")
    command.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="run and compile at most this many plans of all boards at once; others wait (default: one run, as two would slow each other,"
        " and a compilation for every two processors, 4 at most)",
    )
    command.add_argument(
        "--time-limit",
        type=duration,
        metavar="SECONDS",
        help="end a run or a compilation of a board after this many seconds (default: 1800)",
    )
    command.add_argument(
        "--cluster", metavar="ADDRESS", help="compile and search on a Ray cluster: ray://HOST:10001, or `auto`, that of this machine"
    )
    command.add_argument(
        "--exercise",
        metavar="FILE",
        help="show the questions of this exercise.json above the board",
    )
    command.add_argument("--fleet", metavar="FILE", help="open the board of the models of this file, in TOML or JSON, instead of a plan")


def _report(added: Any) -> None:
    command = add_command(
        added,
        "report",
        CommandFunction("commands", "report"),
        "print what every device would hold, send and compute",
        "workbench report my.plan.json --json",
    )
    command.add_argument("--stage", type=int, metavar="N", help="of a plan with a pipeline what the devices of one stage do, from 0")
    tier = command.add_mutually_exclusive_group()
    tier.add_argument(
        "--planned",
        action="store_true",
        help="print the figures as planned here, at once (default: XLA's own partitioner computes what is sent, which takes seconds the "
        "first time)",
    )
    tier.add_argument(
        "--compiled",
        action="store_true",
        help="compile the plan for its hardware, too, or for the attached devices: memory and kernel times are then the compiler's",
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
        "--check", action="store_true", help="also check the result against the unsharded step; exits with 1 if it is wrong"
    )
    command.add_argument(
        "--profile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="profile one more step, and print what the devices did in it (default: yes; it takes about half a second)",
    )
    command.add_argument("--distributed", action="store_true", help="this is one of several processes (detected under Slurm and Open MPI)")
    add_events(command)
    add_json(command, "; progress goes to stderr")


def _compile(added: Any) -> None:
    command = add_command(
        added,
        "compile",
        CommandFunction("commands", "compile_"),
        "compile a plan for hardware that may be absent, and print what its compiler makes of it",
        'workbench compile my.plan.json --hardware "TPU v5e 4x4"',
    )
    add_time_limit(command)
    command.add_argument("--hlo", metavar="FILE", help="also write the scheduled HLO text there")
    command.add_argument("--no-cache", action="store_true", help="compile anew, and keep nothing on disk")
    add_events(command)
    add_json(command, "; progress goes to stderr")


def _compare(added: Any) -> None:
    command = add_command(
        added,
        "compare",
        CommandFunction("commands", "compare"),
        "compile a plan and set every prediction beside the compiler's figure, with the cause of each difference",
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
        "set two plans side by side: what was decided otherwise, and what it costs or saves",
        "workbench diff mine.plan.json theirs.plan.json",
        terms=True,
    )
    command.add_argument("before", metavar="A.plan.json", help="a saved plan")
    command.add_argument("after", metavar="B.plan.json", help="another one")
    add_hardware(command, "what both are planned for (default: what each of them says)")
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
    command.add_argument("names", nargs="*", metavar="NAME", help="recipes to apply in turn (default: list all, and whether each applies)")
    command.add_argument(
        "--axis", metavar="AXIS", action="append", default=[], help="the mesh axis to use (default: found by its name); may be repeated"
    )
    command.add_argument("-o", "--output", metavar="FILE", help="also write the plan that results")
    add_json(command)


def _fleet(added: Any) -> None:
    command = add_parser(
        added,
        "fleet",
        "train many models at once on the attached devices, or see beforehand what that would take",
        "workbench fleet run grid.toml --devices 2",
        "workbench fleet simulate grid.toml --devices 8 --policy all",
        'workbench fleet simulate grid.toml --hardware "8 H100"',
        description="Train many models at once, each cut into shards that fit a device, or simulate that from units timed here.",
    )
    verbs = command.add_verbs("VERB")
    for name, function, text in (
        ("run", CommandFunction("fleet_command", "run"), "train the models, and print the measured schedule beside the predicted one"),
        (
            "simulate",
            CommandFunction("fleet_command", "simulate"),
            "time each unit on one device here, or plan it for hardware that is named, and print the schedule",
        ),
    ):
        verb = add_parser(verbs, name, text, f"workbench fleet {name} grid.toml --devices 2")
        verb.add_argument("file", metavar="FILE", help="which models to train, in TOML or JSON")
        verb.add_argument("--devices", type=positive, metavar="N", help="number of devices (default: the file's, else all there are)")
        add_hardware(verb, 'what it is planned for, attached or not: "8 H100" (default: the file\'s, else what is attached)')
        add_link(verb)
        add_hardware_file(verb)
        verb.add_argument("--memory", metavar="TEXT", help='what may be used of each device: "2 GiB"')
        several = ", `all`, or `exact` for the optimum of a small case" if name == "simulate" else ""
        verb.add_argument("--policy", metavar="NAME", help=f"which model runs next: sharded-lrtf, round-robin, ...{several}")
        if name == "run":
            verb.add_argument("--folder", metavar="DIR", help="keep checkpoints there, and go on from the one that is there")
            verb.add_argument("--follow", action="store_true", help="models added to FILE meanwhile join, those taken out of it stop")
        add_allow(verb)
        add_json(verb, "; progress goes to stderr")
        verb.set_defaults(command=function)


def _export(added: Any) -> None:
    command = add_command(
        added,
        "export",
        CommandFunction("commands", "export"),
        "write a plan as a JAX script, as a page to mail, as a trace for Perfetto, as a picture, as a plan file",
        "workbench export my.plan.json -o my_plan.html",
    )
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="file to write; its name says as what: .py a script, .html a page, .trace.json a trace for ui.perfetto.dev, .png or .svg the "
        "board, .plan.json the plan itself (default: standard output)",
    )
    command.add_argument(
        "--form",
        metavar="FORM",
        help="what to write, where the file does not say: script, specs, rules, maxtext, html, trace, png, svg, plan",
    )
    tier = command.add_mutually_exclusive_group()
    tier.add_argument("--planned", action="store_true", help="with the planned figures, at once (default: XLA's partitioner is asked)")
    tier.add_argument(
        "--compiled", action="store_true", help="compile the plan, too: a trace has the compiler's kernels beside what was predicted"
    )
    command.add_argument("--run", action="store_true", help="also run the plan here: a page and a trace have what was measured, too")
    command.add_argument("--steps", type=positive, default=20, help="steps to measure with --run (default: %(default)s)")


def _explain(added: Any) -> None:
    command = add_command(
        added,
        "explain",
        CommandFunction("commands", "explain"),
        "say why a value is sharded as it is: where each axis came from, over which operations, and which axes were rejected",
        "workbench explain my.plan.json mlp/up/dot_general",
    )
    command.add_argument(
        "value",
        nargs="?",
        metavar="VALUE",
        help="a path, pattern or source line (gpt.py:42); without one, all conflicts and what decides them",
    )
    command.add_argument("--steps", action="store_true", help="print the whole propagation, step by step")
    command.add_argument(
        "--fewest", action="store_true", help="print the fewest statements that give every value the sharding it has in this plan"
    )
    add_json(command)


def _completion(added: Any) -> None:
    command = add_parser(
        added,
        "completion",
        "print the code that makes a shell complete commands, options and hardware",
        'eval "$(workbench completion bash)"      # in ~/.bashrc; zsh in ~/.zshrc',
        "workbench completion fish > ~/.config/fish/completions/workbench.fish",
    )
    command.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    command.set_defaults(command=CommandFunction("command_parser", "print_completion"))
