"""`workbench plan`: whether a model fits on a cluster, how long it takes there, on how many devices, and with which layouts."""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from workbench.cli.plan_arguments import use_hardware_file
from workbench.cli.shared_arguments import add_hardware_file, add_json, add_parser, duration
from workbench.documents import save_plan
from workbench.errors import SearchError
from workbench.models.sizing.cluster_answer import GOALS, ClusterAnswer, answer_record
from workbench.models.sizing.plan_config import plan_config
from workbench.tracing.jax_backends import force_cpu_backend

_EPILOG = """\
examples:
  workbench plan config.json --on "64 H100" --tokens 2T --batch 4M --seq 8k
  workbench plan llama3-70b --on "8 H100" --inference --batch 32
  workbench plan models/mixtral --on "256 TPU v5p" --seconds 30 --save plans
"""


def add_plan(added: Any) -> None:
    """Add the command."""
    command = add_parser(added, "plan", "say whether a model fits on a cluster, how long it takes, and with which layouts", epilog=_EPILOG)
    command.add_argument(
        "config",
        metavar="CONFIG",
        help="a Hugging Face config.json, the folder that holds one, or a model of the zoo, llama3-8b; nothing is downloaded",
    )
    command.add_argument("--on", required=True, metavar="CLUSTER", help='"64 H100", "8 x p5.48xlarge", "TPU v5p 4x4x4", "64 H100, 2.5 $/h"')
    command.add_argument("--tokens", metavar="N", help="tokens to train on, 2T; decides days and cost (default: 20 a parameter)")
    command.add_argument(
        "--batch",
        metavar="N",
        help="sequences of a step, 512, or tokens, 4M; with --inference sequences decoded at once (default: 1M tokens; 8)",
    )
    command.add_argument(
        "--seq", metavar="N", help="tokens of a sequence, 8k or 8192; with --inference tokens cached (default: 4096 at most)"
    )
    command.add_argument("--inference", action="store_true", help="plan a decoding step instead of training")
    seconds = partial(duration, from_0=True)
    command.add_argument("--seconds", type=seconds, default=2.0, metavar="N", help="plan layouts for so long (default: %(default)s)")
    command.add_argument("--save", metavar="FOLDER", help="write each layout there as a plan file, for `workbench serve`")
    command.add_argument("--open", choices=[goal.replace(" ", "-") for goal in GOALS], help="open this layout on the board; needs --save")
    add_hardware_file(command)
    add_json(command)
    command.set_defaults(command=plan, serve=added.choices["serve"])


def plan(options: argparse.Namespace) -> None:
    """Print the answer, and save or open its layouts. Exits with 0 also where the model does not fit: that is an answer."""
    if options.open and not options.save:
        raise SearchError("A layout is opened on the board from its file.", ["add `--save FOLDER`"])
    force_cpu_backend()
    use_hardware_file(options)
    wanted = {name: getattr(options, name) for name in ("tokens", "batch", "seq", "inference", "seconds")}
    answer = plan_config(options.config, options.on, **wanted, on_progress=_progress_printer())
    print(json.dumps(answer_record(answer), indent=1) if options.json else answer)
    if options.save:
        _save(answer, options)


def _progress_printer() -> Callable[[ClusterAnswer], None]:
    """What prints each better answer on standard error; the first one, of closed forms, is there at once."""
    printed = [""]

    def hear(answer: ClusterAnswer) -> None:
        best = [f"{goal} {layout.summary}" for goal, layout in answer.layouts.items()]
        text = "; ".join(["fits" if answer.fits else "does not fit", *best])
        if text != printed[0]:
            print(f"{answer.seconds:.1f} s: {text}", file=sys.stderr, flush=True)
        printed[0] = text

    return hear


def _save(answer: ClusterAnswer, options: argparse.Namespace) -> None:
    folder = Path(options.save)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SearchError(f"`{folder}` cannot be written: {error.strerror or error}.", ["give another folder"]) from None
    paths = {goal: folder / f"{goal.replace(' ', '_')}.plan.json" for goal in answer.layouts}
    for goal, path in paths.items():
        save_plan(answer.plan(goal), path)
        print(f"{goal}: workbench serve {path}", file=sys.stderr if options.json else sys.stdout)
    if options.open:
        goal = options.open.replace("-", " ")
        if goal not in paths:
            raise SearchError(f"The answer has no layout `{goal}`.", [f"open {' or '.join(f'`{each}`' for each in paths) or 'another'}"])
        served = options.serve.parse_args([str(paths[goal])])
        served.command(served)
