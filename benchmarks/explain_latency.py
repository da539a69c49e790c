"""From a plan to why a value lies as it does: the GPT-3 175B training step (Adam) on 2,048 devices, scanned and unrolled over 96 layers.

`explain_ms` is what a click on one value takes when nothing is at hand but the report: Shardy's records, the replay, the explanation in
words. `replay_s` is a whole propagation prepared for the slider: every move, and the state it starts with. Both are of the scanned step;
`unrolled_...` are the same of 96 layers written out, 34 times as many operations.

    python benchmarks/explain_latency.py [--quick] [--json]
"""

import argparse
import json
import os
import statistics
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from workbench.core.program import Program
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.report import Report

MESH, LAYOUT = "data:64 model:32", "batch:data; heads:model; vocab:model; d_ff:model"
VALUES = {True: "layers/mlp/up/dot_general", False: "layers/95/mlp/up/dot_general"}
PLACES = 20


def reported(program: Program) -> Report:
    """A report whose propagation no one has asked for; the program is at hand, as after the first drop."""
    return Plan(program, MESH, LAYOUT).report()


def explain_seconds(program: Program, value: str, repeats: int) -> list[float]:
    """Seconds from the report to the words, each time from a new report."""
    seconds = []
    for _ in range(repeats + 1):
        report = reported(program)
        start = time.perf_counter()
        report.explain(value)
        seconds.append(time.perf_counter() - start)
    return seconds[1:]  # the first reads the program's sharding rules, once a program


def replay_seconds(program: Program, repeats: int) -> tuple[list[float], int]:
    """Seconds to prepare a whole replay and its first state, and the number of its steps."""
    seconds, steps = [], 0
    for _ in range(repeats):
        report = reported(program)
        start = time.perf_counter()
        moves = report.propagation.axis_propagations
        _ = report.propagation.at(0)
        seconds.append(time.perf_counter() - start)
        steps = moves[-1].step
    return seconds, steps


def slide_seconds(report: Report) -> list[float]:
    """Seconds of one move of a slider, at twenty places."""
    replay = report.propagation
    last, seconds = replay.axis_propagations[-1].step, []
    for place in range(PLACES):
        start = time.perf_counter()
        replay.at(last * place // PLACES)
        seconds.append(time.perf_counter() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions; under 45 s")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args()
    scanned, unrolled = (build("gpt", preset="gpt3-175b", scan=scan) for scan in (True, False))
    explain_ms = 1e3 * statistics.median(explain_seconds(scanned, VALUES[True], 5 if options.quick else 20))
    print(f"scanned, one value explained    {explain_ms:9.1f} ms (median; goal 100)")
    unrolled_ms = 1e3 * statistics.median(explain_seconds(unrolled, VALUES[False], 1 if options.quick else 5))
    print(f"unrolled, one value explained   {unrolled_ms:9.1f} ms, the propagation prepared first")
    seconds, steps = replay_seconds(scanned, 5 if options.quick else 20)
    replay_s = statistics.median(seconds)
    print(f"scanned, replay prepared        {replay_s:9.3f} s  ({steps:,} steps, {len(scanned.operations):,} operations; goal 2)")
    seconds, steps = replay_seconds(unrolled, 1 if options.quick else 5)
    unrolled_s = statistics.median(seconds)
    print(f"unrolled, replay prepared       {unrolled_s:9.2f} s  ({steps:,} steps, {len(unrolled.operations):,} operations; goal 2)")
    slide_ms = 1e3 * statistics.median(slide_seconds(reported(unrolled)))
    print(f"unrolled, one move of a slider  {slide_ms:9.1f} ms")
    report = reported(unrolled)
    report.explain(VALUES[False])
    start = time.perf_counter()
    report.explain(VALUES[False])
    again_ms = 1e3 * (time.perf_counter() - start)
    print(f"unrolled, explained once more   {again_ms:9.1f} ms, the propagation at hand")
    figures = {
        "explain_ms": round(explain_ms, 1),
        "replay_s": round(replay_s, 3),
        "unrolled_replay_s": round(unrolled_s, 2),
        "unrolled_explain_ms": round(unrolled_ms, 1),
        "unrolled_again_ms": round(again_ms, 1),
        "slide_ms": round(slide_ms, 1),
    }
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
