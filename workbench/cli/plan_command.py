"""`workbench plan`: whether a model fits on a cluster, how long it takes, on how many devices, and in which layouts."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from workbench.cli.catalogue_command import use_hardware_file
from workbench.documents import save_plan
from workbench.errors import SearchError, explain_os_errors
from workbench.models.sizing.cluster_answer import ClusterAnswer, answer_record
from workbench.models.sizing.plan_config import plan_config
from workbench.tracing.jax_backends import force_cpu_backend


def plan(options: argparse.Namespace) -> None:
    """Print the answer, and save or open its layouts. Exits with 0 even if the model does not fit: that is an answer."""
    if options.open and not options.save:
        raise SearchError("`--open` needs the file of the layout.", ["add `--save FOLDER`"])
    force_cpu_backend()
    use_hardware_file(options)
    wanted = {name: getattr(options, name) for name in ("tokens", "batch", "seq", "inference", "optimizer", "precision", "lora", "seconds")}
    answer = plan_config(options.config, options.on, **wanted, on_progress=_progress_printer())
    print(json.dumps(answer_record(answer), indent=1) if options.json else answer)
    if options.save:
        _save(answer, options)


def _progress_printer() -> Callable[[ClusterAnswer], None]:
    """Print each better answer on stderr; the first one, in closed form, comes at once."""
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
    with explain_os_errors(f"`{folder}` cannot be written", SearchError, "give another folder"):
        folder.mkdir(parents=True, exist_ok=True)
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
