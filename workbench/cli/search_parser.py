"""Arguments of the commands that choose a plan or a size: `workbench search`, `plan` and `latency`."""

import argparse
import re
from functools import partial
from typing import Any

from workbench.cli.command_parser import CommandFunction
from workbench.cli.shared_arguments import add_command, add_events, add_hardware_file, add_json, add_parser, duration, positive

# Choices by name, repeated here because the modules that define them import JAX; a test compares both.
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
        "--devices", type=counts, metavar="N", help="number of devices, or several to choose from: 64,128,256 (default: that of the plan)"
    )
    command.add_argument("--within", type=span, default=30.0, metavar="TIME", help="time limit: 60s, 5m (default: 30s)")
    command.add_argument(
        "--until",
        choices=UNTIL,
        default="complete",
        help="stop when the whole front is known, or when the best plan is proved (default: complete)",
    )
    command.add_argument(
        "--objective",
        choices=("seconds", "memory", "devices", "dollars"),
        default="seconds",
        help="figure to minimise: seconds per step, memory of the fullest device, devices, dollars per 1,000 steps (default: seconds)",
    )
    command.add_argument(
        "--at-most",
        metavar="FIGURE=LIMIT",
        action="append",
        default=[],
        help='a limit: "memory=40 GiB", seconds=4, "seconds=250 ms", dollars=900 (per 1,000 steps), devices=256; may be repeated',
    )
    command.add_argument(
        "--pin",
        metavar="DECISION=VALUE",
        action="append",
        default=[],
        help="a fixed decision: model=8, stage=1 (no pipeline), zero=zero_1, remat=full, micro_batches=32; may be repeated",
    )
    command.add_argument(
        "--layouts",
        type=layouts,
        metavar="NAME|NAME",
        help='layouts to choose from, "megatron|per operation", or `all`: recipes, dimensions of the program, `per operation`, '
        "`per stage` (default: the recipes if one applies, else all)",
    )
    command.add_argument("--keep", action="store_true", help="keep the layout of the plan and choose only the rest")
    command.add_argument(
        "--wide",
        action="store_true",
        help="search a larger space: also context and expert axes, other links for each axis, remat on the first stages or on some layers, "
        "more schedules, uneven stages, activations or optimizer state on the host",
    )
    command.add_argument(
        "--remats",
        type=names,
        metavar="R|R",
        help=f"rematerialisation policies to choose from, such as none|offloaded: {', '.join(REMATS)} (full_1/2: on 1 of every 2 layers; "
        "offloaded: weight products in host memory, without a pipeline), and in pipelines first_half, first_quarter "
        "(default: none, selective and full, if the program allows them)",
    )
    command.add_argument(
        "--offloads",
        type=names,
        metavar="WHAT|WHAT",
        help=f'contents of host memory between steps to choose from: "{"|".join(OFFLOADS)}" (default: that of the plan)',
    )
    command.add_argument(
        "--boundaries",
        type=names,
        metavar="RULE|RULE",
        help=f'rules for stage boundaries to choose from: "{"|".join(BOUNDARIES)}" (default: {BOUNDARIES[0]})',
    )
    command.add_argument(
        "--precisions",
        type=names,
        metavar="P|P",
        default=(),
        help='precisions to choose from (they change results): "as traced|bfloat16" (default: that of the plan)',
    )
    command.add_argument(
        "--why", action="store_true", help="also print the comparison with the runner-up, and the effect of every other choice"
    )
    command.add_argument(
        "--verify",
        type=whole,
        metavar="N",
        help="verify the N fastest plans with XLA's partitioner and then the compiler, and print both next to the planned figures; 0: none "
        "(default: the ten fastest, near ties, the present plan, and the best of each layout and ZeRO stage, as time allows)",
    )
    command.add_argument("--workers", type=int, metavar="N", help="number of worker processes (default: one per processor)")
    command.add_argument("--cluster", metavar="ADDRESS", help="run the workers on a Ray cluster: ray://HOST:PORT, or `local`")
    command.add_argument("-o", "--output", metavar="FILE", help="also write the best plan")
    add_events(command)
    add_json(command, "; progress goes to stderr")


def add_plan(added: Any) -> None:
    command = add_parser(
        added,
        "plan",
        "tell whether a model fits on a cluster, how long it takes, and in which layouts",
        'workbench plan config.json --on "64 H100" --tokens 2T --batch 4M --seq 8k',
        'workbench plan llama3-70b --on "8 H100" --inference --batch 32',
        'workbench plan models/mixtral --on "256 TPU v5p" --seconds 30 --save plans',
    )
    command.add_argument(
        "config",
        metavar="CONFIG",
        help="a Hugging Face config.json or its folder, or a model of the zoo such as llama3-8b; nothing is downloaded",
    )
    command.add_argument("--on", required=True, metavar="CLUSTER", help='"64 H100", "8 x p5.48xlarge", "TPU v5p 4x4x4", "64 H100, 2.5 $/h"')
    command.add_argument("--tokens", metavar="N", help="training tokens, such as 2T, for days and cost (default: 20 per parameter)")
    command.add_argument(
        "--batch",
        metavar="N",
        help="sequences per step, 512, or tokens, 4M (default: 1M tokens); with --inference, sequences decoded at once (default: 8)",
    )
    command.add_argument(
        "--seq", metavar="N", help="tokens per sequence, 8k or 8192; with --inference, cached tokens (default: at most 4096)"
    )
    command.add_argument("--inference", action="store_true", help="plan a decoding step instead of training")
    command.add_argument("--optimizer", default="adamw", metavar="NAME", help="lion, muon, adafactor, adam8bit ... (default: %(default)s)")
    command.add_argument(
        "--precision",
        default="",
        metavar="TYPE",
        help='of weight products in training: float8, "float8 rowwise"; of the weights in decoding: bfloat16, float8, int8, int4 (default: '
        "that of the file); of frozen weights: int8, int4",
    )
    command.add_argument("--lora", type=int, default=0, metavar="RANK", help="train low-rank adapters of frozen weights alone")
    seconds = partial(duration, from_0=True)
    command.add_argument("--seconds", type=seconds, default=2.0, metavar="N", help="time limit for planning layouts (default: %(default)s)")
    command.add_argument("--save", metavar="FOLDER", help="write each layout to this folder as a plan file, for `workbench serve`")
    command.add_argument("--open", choices=GOALS, help="open this layout on the board; needs --save")
    add_hardware_file(command)
    add_json(command)
    command.set_defaults(command=CommandFunction("plan_command", "plan"), serve=added.choices["serve"])


def add_latency(added: Any) -> None:
    command = add_command(
        added,
        "latency",
        CommandFunction("search_command", "latency"),
        "latency and throughput of decoding for several batch sizes and slices, and their Pareto front",
        'workbench latency --model decoder_decode -a preset=llama3-70b --mesh "data:1 model:8" '
        '--layout "batch:data; kv_heads:model; d_ff:model; vocab:model" --batches 1,8,32 --on "TPU v5e 2x4" --on "TPU v5e 4x4"',
    )
    command.add_argument("--batches", type=counts, required=True, metavar="N,N,...", help="batch sizes, in sequences: 1,8,64")
    command.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="NAME",
        help='hardware to decode on, "TPU v5e 2x2"; may be repeated (default: that of the plan)',
    )
    add_json(command)


def counts(text: str) -> tuple[int, ...]:
    """Parse comma-separated whole numbers from 1."""
    return tuple(positive(each.strip()) for each in text.split(","))


def whole(text: str) -> int:
    """Parse a whole number from 0."""
    return 0 if text == "0" else positive(text)


def names(text: str) -> tuple[str, ...]:
    """Parse names separated by `|`.

    >>> names("as traced|bfloat16")
    ('as traced', 'bfloat16')
    """
    return tuple(each.strip() for each in text.split("|"))


def layouts(text: str) -> str | tuple[str, ...]:
    """Parse `all`, or names separated by `|`."""
    return text if text == "all" else names(text)


def span(text: str) -> float:
    """Parse a time with or without unit, seconds.

    >>> span("90"), span("60s"), span("5m")
    (90.0, 60.0, 300.0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    if not match or match[2] not in _UNITS or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text} is not a time above 0, such as 60s or 5m")
    return float(match[1]) * _UNITS[match[2]]
