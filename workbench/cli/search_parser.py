"""The arguments of `workbench search`."""

import argparse
import re
from typing import Any

from workbench.cli.search_command import search
from workbench.cli.shared_arguments import add_command, add_events, add_json, positive
from workbench.search.run_search import UNTIL
from workbench.search.traced_programs import OFFLOADS, REMATS
from workbench.search.uneven_boundaries import BOUNDARIES, BY_TIME

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def add_search(added: Any) -> None:
    command = add_command(
        added,
        "search",
        search,
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
        help=f'rules by which a network is divided into stages: "{"|".join(BOUNDARIES)}" (default: {BY_TIME})',
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
        type=positive,
        metavar="N",
        help="also ask XLA's partitioner and then the compiler about the N fastest plans, and print both beside what was planned",
    )
    command.add_argument("--workers", type=int, metavar="N", help="processes that plan candidates (default: one for each processor)")
    command.add_argument("--cluster", metavar="ADDRESS", help="plan candidates on a Ray cluster, ray://HOST:PORT, or `local`")
    command.add_argument("-o", "--output", metavar="FILE", help="also write the best plan")
    add_events(command)
    add_json(command, "; progress goes to stderr")


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers from 1, with commas between them."""
    return tuple(positive(each.strip()) for each in text.split(","))


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
        raise argparse.ArgumentTypeError(f"{text} is no time above 0, such as 60s or 5m")
    return float(found[1]) * _UNITS[found[2]]
