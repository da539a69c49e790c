"""`workbench latency`: latency against throughput of a step of decoding, over batches and slices of hardware."""

import argparse
import json
from dataclasses import asdict
from typing import Any

from workbench.cli.plan_arguments import plan_on_the_cpu
from workbench.cli.shared_arguments import add_command, add_json, positive
from workbench.reports.latency_front import DecodePoint, LatencyFront

_DERIVED = ("seconds_per_token", "tokens_per_second", "tokens_per_second_per_chip", "fits")


def add_latency(added: Any) -> None:
    """Add the command."""
    command = add_command(
        added,
        "latency",
        latency,
        "latency and throughput of decoding for several batches and slices, and which of them are on the front",
        'workbench latency --model decoder_decode -a preset=llama3-70b --mesh "data:1 model:8" '
        '--layout "batch:data; kv_heads:model; d_ff:model; vocab:model" --batches 1,8,32 --on "TPU v5e 2x4" --on "TPU v5e 4x4"',
    )
    command.add_argument("--batches", type=_batches, required=True, metavar="N,N,...", help="sequences that get a token at once: 1,8,64")
    command.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="NAME",
        help='hardware to decode on, "TPU v5e 2x2"; may be repeated (default: that of the plan)',
    )
    add_json(command)


def _batches(text: str) -> list[int]:
    return [positive(word.strip()) for word in text.split(",")]


def latency(options: argparse.Namespace) -> None:
    """Print the points, the quickest first."""
    from workbench.search.decode_front import latency_front

    found = latency_front(plan_on_the_cpu(options), options.batches, options.on)
    print(json.dumps(latency_record(found), indent=1) if options.json else found)


def latency_record(found: LatencyFront) -> dict[str, Any]:
    """A front as JSON has it, what follows from each point included."""
    return {
        "plan": found.plan,
        "points": [_point_record(each) for each in found.points],
        "impossible": [asdict(each) for each in found.impossible],
    }


def _point_record(point: DecodePoint) -> dict[str, Any]:
    return asdict(point) | {name: getattr(point, name) for name in _DERIVED}
