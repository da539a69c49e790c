"""The arguments of the commands that choose a plan or a size: `workbench search`, `plan` and `latency`."""

import argparse
import re
from functools import partial
from typing import Any

from workbench.cli.command_parser import CommandFunction
from workbench.cli.shared_arguments import add_command, add_events, add_hardware_file, add_json, add_parser, duration, positive

# What the search and the answer take, by name, stated here because their modules import JAX; a test compares.
UNTIL = ("complete", "proved")
REMATS = ("as traced", "none", "selective", "offloaded", "full", "full_3/4", "full_1/2", "full_1/4")
OFFLOADS = ("nothing", "optimizer_state")
BOUNDARIES = ("time", "memory", "fit")
GOALS = ("fastest", "fewest-devices", "cheapest")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def add_search(added: Any) -> None:
    command = add_command(
        added,
        "search",
        CommandFunction("search_command", "search"),
        "find the best plan: layout, mesh, ZeRO, remat, stages, schedule and micro-batches, with a proof where time allows",
        'workbench search my.plan.json --devices 256 --hardware "TPU v5p" --within 60s -o best.plan.json',
    )
    command.add_argument(
        "--devices", type=counts, metavar="N", help="how many devices; several with commas to choose from: 64,128,256 (default: the plan's)"
    )
    command.add_argument("--within", type=span, default=30.0, metavar="TIME", help="how long to search: 60s, 5m (default: 30s)")
    command.add_argument(
        "--until",
        choices=UNTIL,
        default="complete",
        help="when it is over: once the whole front is known, or once the best plan is proved (default: complete)",
    )
    command.add_argument(
        "--objective",
        choices=("seconds", "memory", "devices", "dollars"),
        default="seconds",
        help="what is to be least: seconds of a step, memory of the fullest device, devices, or dollars of 1,000 steps (default: seconds)",
    )
    command.add_argument(
        "--at-most",
        metavar="FIGURE=LIMIT",
        action="append",
        default=[],
        help='a limit to keep: "memory=40 GiB", seconds=4, "seconds=250 ms", dollars=900 (of 1,000 steps), devices=256; may be repeated',
    )
    command.add_argument(
        "--pin",
        metavar="DECISION=VALUE",
        action="append",
        default=[],
        help="a decision that is fixed: model=8, stage=1 (no pipeline), zero=zero_1, remat=full, micro_batches=32; may be repeated",
    )
    command.add_argument(
        "--layouts",
        type=layouts,
        metavar="NAME|NAME",
        help='layouts to choose from, "megatron|per operation", or `all` that apply: known recipes, the program\'s own dimensions, each '
        "operation or each stage by itself (`per operation`, `per stage`) (default: the recipes where one fits, else all)",
    )
    command.add_argument("--keep", action="store_true", help="keep what the plan's layout states; only the rest is chosen")
    command.add_argument(
        "--wide",
        action="store_true",
        help="choose more: also context and expert axes, other links for each axis, remat on the first stages or on some layers alone, "
        "more schedules, uneven stages, activations or the optimiser's state on the host",
    )
    command.add_argument(
        "--remats",
        type=names,
        metavar="R|R",
        help=f"what layers keep, to choose from: {', '.join(REMATS)} (full_1/2: on 1 of every 2 layers; offloaded: products of weights, on "
        "the host, for steps without a pipeline), and in pipelines first_half, first_quarter (default: none, selective and full, as far as "
        'the program allows): "none|offloaded"',
    )
    command.add_argument(
        "--offloads",
        type=names,
        metavar="WHAT|WHAT",
        help=f'what may be in the host\'s memory between steps: "{"|".join(OFFLOADS)}" (default: as the plan has it)',
    )
    command.add_argument(
        "--boundaries",
        type=names,
        metavar="RULE|RULE",
        help=f'rules by which a network is divided into stages: "{"|".join(BOUNDARIES)}" (default: {BOUNDARIES[0]})',
    )
    command.add_argument(
        "--precisions",
        type=names,
        metavar="P|P",
        default=(),
        help='precisions to choose from, which change results: "as traced|bfloat16" (default: the plan\'s)',
    )
    command.add_argument(
        "--why", action="store_true", help="also print the ledger against the runner-up, and what each other choice would do"
    )
    command.add_argument(
        "--verify",
        type=whole,
        metavar="N",
        help="ask XLA's partitioner and then the compiler about the N fastest plans, and print both beside what was planned; 0 asks nobody "
        "(default: the ten fastest, near ties, the present plan, and the best of each layout with each stage of ZeRO, while time lasts)",
    )
    command.add_argument("--workers", type=int, metavar="N", help="processes that plan candidates (default: one for each processor)")
    command.add_argument("--cluster", metavar="ADDRESS", help="plan candidates on a Ray cluster, ray://HOST:PORT, or `local`")
    command.add_argument("-o", "--output", metavar="FILE", help="also write the best plan")
    add_events(command)
    add_json(command, "; progress goes to stderr")


def add_plan(added: Any) -> None:
    command = add_parser(
        added,
        "plan",
        "say whether a model fits on a cluster, how long it takes, and with which layouts",
        'workbench plan config.json --on "64 H100" --tokens 2T --batch 4M --seq 8k',
        'workbench plan llama3-70b --on "8 H100" --inference --batch 32',
        'workbench plan models/mixtral --on "256 TPU v5p" --seconds 30 --save plans',
    )
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
    command.add_argument("--open", choices=GOALS, help="open this layout on the board; needs --save")
    add_hardware_file(command)
    add_json(command)
    command.set_defaults(command=CommandFunction("plan_command", "plan"), serve=added.choices["serve"])


def add_latency(added: Any) -> None:
    command = add_command(
        added,
        "latency",
        CommandFunction("search_command", "latency"),
        "latency and throughput of decoding for several batches and slices, and which of them are on the front",
        'workbench latency --model decoder_decode -a preset=llama3-70b --mesh "data:1 model:8" '
        '--layout "batch:data; kv_heads:model; d_ff:model; vocab:model" --batches 1,8,32 --on "TPU v5e 2x4" --on "TPU v5e 4x4"',
    )
    command.add_argument("--batches", type=counts, required=True, metavar="N,N,...", help="sequences that get a token at once: 1,8,64")
    command.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="NAME",
        help='hardware to decode on, "TPU v5e 2x2"; may be repeated (default: that of the plan)',
    )
    add_json(command)


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers from 1, with commas between them."""
    return tuple(positive(each.strip()) for each in text.split(","))


def whole(text: str) -> int:
    """A whole number from 0."""
    return 0 if text == "0" else positive(text)


def names(text: str) -> tuple[str, ...]:
    """Names with `|` between them.

    >>> names("as traced|bfloat16")
    ('as traced', 'bfloat16')
    """
    return tuple(each.strip() for each in text.split("|"))


def layouts(text: str) -> str | tuple[str, ...]:
    """`all`, or names with `|` between them."""
    return text if text == "all" else names(text)


def span(text: str) -> float:
    """Seconds, with or without a unit.

    >>> span("90"), span("60s"), span("5m")
    (90.0, 60.0, 300.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    if not found or found[2] not in _UNITS or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text} is not a time above 0, such as 60s or 5m")
    return float(found[1]) * _UNITS[found[2]]
