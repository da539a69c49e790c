"""What may be written on the command line."""

import argparse
from collections.abc import Callable
from typing import Any

from workbench.cli import commands, fleets, recipes
from workbench.cli.plans import DEFAULT_MESH

_TERMS = """\
words used here:
  mesh     the devices as a grid with named axes: "data:4 model:2" is 4 x 2 = 8 devices
  layout   which tensor dimension is split over which mesh axis: "batch:data; d_ff:model";
           "params/head=[-, model]" places one argument in its own way ("-" keeps a dimension whole),
           "@mlp/dot_general=[data, ?, model]" constrains an intermediate value ("?" leaves it to the partitioner)
  plan     a program, a mesh and a layout; PLAN.json is one that was saved
"""

_EPILOG = f"""\
{_TERMS}
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
  workbench export my.plan.json -o my_plan.py               the same plan as a JAX script
"""


def make_parser() -> argparse.ArgumentParser:
    from workbench import __version__

    parser = argparse.ArgumentParser(
        prog="workbench",
        description="Decide how to lay a JAX program out over devices: see what each would hold, send and compute, then run it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"workbench {__version__}")
    added = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (_serve, _report, _run, _compile, _compare, _diff, _explain, _recipe, _fleet, _export, _calibrate, _models, _hardware):
        add(added)
    return parser


def _serve(added: Any) -> None:
    command = _command(added, "serve", commands.serve, "open the workbench in the browser", 'workbench serve --model mnist --mesh "data:8"')
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
        type=_positive,
        metavar="N",
        help="run and compile so many plans of all boards at once, the others wait (default: one run, as two would slow each other's steps,"
        " and a compilation for every two processors, 4 at most)",
    )
    command.add_argument(
        "--time-limit", type=_seconds, metavar="SECONDS", help="end a run or a compilation of a board after so many seconds (default: 1800)"
    )
    command.add_argument("--fleet", metavar="FILE", help="open the board of the models of this file, in TOML or JSON, instead of a plan")


def _report(added: Any) -> None:
    command = _command(
        added, "report", commands.report, "print what every device would hold, send and compute", "workbench report my.plan.json --json"
    )
    tier = command.add_mutually_exclusive_group()
    tier.add_argument(
        "--planned",
        action="store_true",
        help="print the figures as planned here, at once (default: XLA's own partitioner is asked what is sent, which takes seconds the "
        "first time)",
    )
    tier.add_argument(
        "--compiled",
        action="store_true",
        help="compile the plan for its hardware, too, or for the attached devices: memory and kernel times are then the compiler's",
    )
    _add_json(command)


def _run(added: Any) -> None:
    command = _command(
        added, "run", commands.run, "run a plan on the attached devices and measure it", "srun -n 2 workbench run my.plan.json"
    )
    command.add_argument("--steps", type=_positive, default=20, help="steps to measure, after warm-up (default: %(default)s)")
    command.add_argument("--check", action="store_true", help="also check the result against the unsharded step")
    command.add_argument(
        "--profile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="watch one more step, and tell what the devices did in it (default: yes; it takes about half a second)",
    )
    command.add_argument(
        "--distributed", action="store_true", help="this is one of several processes (known by itself under Slurm and Open MPI)"
    )
    _add_json(command, "; progress goes to stderr")


def _compile(added: Any) -> None:
    command = _command(
        added,
        "compile",
        commands.compile_,
        "compile a plan for hardware that may be absent, and print what its compiler makes of it",
        'workbench compile my.plan.json --hardware "TPU v5e 4x4"',
    )
    _add_time_limit(command)
    command.add_argument("--hlo", metavar="FILE", help="also write the scheduled HLO text there")
    command.add_argument("--no-cache", action="store_true", help="compile anew, and keep nothing on disk")
    _add_json(command, "; progress goes to stderr")


def _compare(added: Any) -> None:
    command = _command(
        added,
        "compare",
        commands.compare,
        "compile a plan and set every prediction beside the compiler's figure, with the cause of each difference",
        'workbench compare my.plan.json --hardware "TPU v5e 4x4"',
    )
    command.add_argument("--run", action="store_true", help="also run the plan on the attached devices")
    command.add_argument("--steps", type=_positive, default=20, help="steps to measure with --run (default: %(default)s)")
    _add_time_limit(command)
    _add_json(command, "; progress goes to stderr")


def _diff(added: Any) -> None:
    command = _add_parser(
        added,
        "diff",
        "set two plans side by side: what was decided otherwise, and what it costs or saves",
        epilog=f"{_TERMS}\nexample:\n  workbench diff mine.plan.json theirs.plan.json\n",
    )
    command.add_argument("before", metavar="A.plan.json", help="a saved plan")
    command.add_argument("after", metavar="B.plan.json", help="another one")
    command.add_argument("--hardware", metavar="NAME", help="what both are planned for (default: what each of them says)")
    _add_hardware_file(command)
    _add_allow(command)
    _add_json(command)
    command.set_defaults(command=commands.diff)


def _recipe(added: Any) -> None:
    command = _command(
        added,
        "recipe",
        recipes.recipe,
        "lay a plan out in a known way (data parallel, Megatron, ZeRO, ...), or list which ways apply",
        "workbench recipe my.plan.json data_parallel megatron zero_1 -o sharded.plan.json",
    )
    command.add_argument("names", nargs="*", metavar="NAME", help="recipes to apply in turn (default: list all, and whether each applies)")
    command.add_argument(
        "--axis", metavar="AXIS", action="append", default=[], help="the mesh axis to use (default: found by its name); may be repeated"
    )
    command.add_argument("-o", "--output", metavar="FILE", help="also write the plan that results")
    _add_json(command)


def _fleet(added: Any) -> None:
    command = _add_parser(
        added,
        "fleet",
        "train many models at once on the attached devices, or see beforehand what that would take",
        description="Train many models at once, each cut into shards that fit a device, or simulate that from units timed here.",
        epilog="examples:\n  workbench fleet run grid.toml --devices 2\n  workbench fleet simulate grid.toml --devices 8 --policy all\n",
    )
    verbs = command.add_subparsers(required=True, metavar="VERB")
    for name, function, text in (
        ("run", fleets.run, "train the models, and print the measured schedule beside the predicted one"),
        ("simulate", fleets.simulate, "time each unit on one device here, and print the schedule on any number of them"),
    ):
        verb = _add_parser(verbs, name, text)
        verb.add_argument("file", metavar="FILE", help="which models to train, in TOML or JSON")
        verb.add_argument("--devices", type=_positive, metavar="N", help="so many devices (default: the file's, else all there are)")
        verb.add_argument("--memory", metavar="TEXT", help='what may be used of each device: "2 GiB"')
        several = ", `all`, or `exact` for the optimum of a small case" if name == "simulate" else ""
        verb.add_argument("--policy", metavar="NAME", help=f"which model runs next: sharded-lrtf, round-robin, ...{several}")
        if name == "run":
            verb.add_argument("--folder", metavar="DIR", help="keep checkpoints there, and go on from the one that is there")
            verb.add_argument("--follow", action="store_true", help="models added to FILE meanwhile join, those taken out of it stop")
        _add_allow(verb)
        _add_json(verb, "; progress goes to stderr")
        verb.set_defaults(command=function, parser=verb)


def _export(added: Any) -> None:
    command = _command(added, "export", commands.export, "write a plan as a JAX script", "workbench export my.plan.json -o my_plan.py")
    command.add_argument("-o", "--output", metavar="FILE", help="file to write (default: standard output)")


def _calibrate(added: Any) -> None:
    command = added.add_parser(
        "calibrate",
        help="measure the attached devices, for a hardware file",
        description="Measure how fast the attached devices are, all busy at once, and print an entry for a hardware file "
        "(WORKBENCH_HARDWARE names it). It takes a few seconds.",
    )
    command.add_argument("--name", default="This machine", help='what to call it, for --hardware "8 NAME" (default: %(default)s)')
    command.add_argument(
        "--devices", type=_positive, default=8, help="virtual devices to share a machine without accelerators (default: %(default)s)"
    )
    command.set_defaults(command=commands.calibrate)


def _explain(added: Any) -> None:
    command = _command(
        added,
        "explain",
        commands.explain,
        "tell why a value lies as it does: where each axis came from, over which operations, and which wishes lost",
        "workbench explain my.plan.json mlp/up/dot_general",
    )
    command.add_argument(
        "value",
        nargs="?",
        metavar="VALUE",
        help="a path, pattern or source line (gpt.py:42); without one, all conflicts and what decides them",
    )
    command.add_argument("--steps", action="store_true", help="print the whole propagation, step by step")
    command.add_argument("--fewest", action="store_true", help="print the fewest statements that lay everything out as this plan does")
    command.add_argument("--json", action="store_true", help="print JSON instead of text")


def _models(added: Any) -> None:
    command = _add_parser(added, "models", "list the models of the zoo", description="List the models of the zoo, for --model.")
    command.set_defaults(command=commands.models)


def _hardware(added: Any) -> None:
    command = _add_parser(
        added,
        "hardware",
        "list the hardware catalogue, for --hardware",
        description="List the hardware catalogue, or tell all of one kind: its rates and links, and where each number is from.",
        epilog='example:\n  workbench hardware "TPU v5p"\n',
    )
    command.add_argument("name", nargs="?", metavar="NAME", help='a kind of device, "TPU v5p", or so many of it, "TPU v5p 8x8x16"')
    _add_hardware_file(command)
    command.set_defaults(command=commands.hardware)


def _command(added: Any, name: str, function: Callable[[argparse.Namespace], None], text: str, example: str) -> argparse.ArgumentParser:
    """A command about one plan: a document, or a model with a mesh and a layout."""
    parser = _add_parser(added, name, text, epilog=f"{_TERMS}\nexample:\n  {example}\n")
    parser.add_argument("plan", nargs="?", metavar="PLAN.json", help="a saved plan")
    parser.add_argument("--model", metavar="NAME", help="a model of the zoo (`workbench models` lists them), or package.module:function")
    parser.add_argument(
        "-a",
        "--argument",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an argument of the model, such as layers=2; may be repeated",
    )
    parser.add_argument("--mesh", metavar="AXES", help=f'mesh axes and sizes (default for a model: "{DEFAULT_MESH}")')
    parser.add_argument("--layout", metavar="RULES", help="what is split over which axis (default for a model: everything replicated)")
    parser.add_argument("--remat", metavar="POLICY", help="what a layer keeps for its backward pass: none, full, dots, save:NAME+NAME, ...")
    parser.add_argument("--precision", metavar="TYPE", help="what the step is computed in: bfloat16, params=bfloat16,moments=float32, ...")
    parser.add_argument("--hardware", metavar="NAME", help='what it is planned for: "TPU v5p 8x8x16", "32 nodes of 8 H100"')
    parser.add_argument(
        "--axis-assignment",
        "--wiring",
        metavar="ROUTES",
        help='which mesh axis runs over which links: "data:x+y; model:z" (default: by itself)',
    )
    parser.add_argument(
        "--pipeline",
        metavar="STAGES",
        help='how the step is pipelined: "stages:4 micro_batches:16 schedule:1f1b"; a schedule that goes round wants chunks, too: '
        '"schedule:interleaved chunks:2"',
    )
    _add_hardware_file(parser)
    _add_allow(parser)
    parser.set_defaults(command=function, parser=parser, serves=name == "serve")
    return parser


def _add_parser(added: Any, name: str, text: str, *, description: str | None = None, epilog: str | None = None) -> argparse.ArgumentParser:
    """A command, or a verb of one; its description is the text as a sentence, if no other is given."""
    parser: argparse.ArgumentParser = added.add_parser(
        name,
        help=text,
        description=description or f"{text[0].upper()}{text[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def _add_json(command: argparse.ArgumentParser, besides: str = "") -> None:
    command.add_argument("--json", action="store_true", help=f"print one JSON object instead of tables{besides}")


def _add_time_limit(command: argparse.ArgumentParser) -> None:
    command.add_argument("--time-limit", type=_seconds, metavar="SECONDS", help="give up after so many seconds (default: never)")


def _add_hardware_file(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--hardware-file", metavar="FILE", help="a file of your own hardware, in the form of workbench/hardware/hardware.toml"
    )


def _add_allow(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--allow",
        metavar="MODULE",
        action="append",
        default=[],
        help="let files name programs of this module, which is imported then; may be repeated (WORKBENCH_ALLOW=mine,other does the same)",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds
