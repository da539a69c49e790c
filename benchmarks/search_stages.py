"""A layout of its own for each stage (`per_stage.choose_stages`), beside the best layout that all stages have.

Programs of the zoo whose layers are written out, at sizes of their papers, as pipelines of two and of four stages: the planner's seconds of
a step with each layout over `model` that applies, and of the plan composed of them. `better` counts the cases in which that is faster by
more than 1 %, `ratio` is the geometric mean of its seconds over the others', `worst` the largest; `took` are seconds of choosing, once the
other layouts are planned.
"""

import math
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.search_programs import Work
from workbench.errors import WorkbenchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.layout_choices import PER_STAGE, LayoutChoice, list_layout_choices
from workbench.search.per_stage.choose_stages import choose_stages
from workbench.search.search_figures import Figures, evaluate_plan

BETTER = 0.99
MICRO_BATCHES = 8
HARDWARE = {
    2: (("2 nodes of 8 H100", "stage:2 model:8"), ("TPU v5e 2x4", "stage:2 model:4")),
    4: (("2 nodes of 8 H100", "stage:4 model:4"), ("TPU v5e 4x4", "stage:4 model:4")),
}


WORKS = (
    Work("3-D U-Net, Mesh-TensorFlow", lambda: build("unet", preset="mesh-tensorflow"), quick=True),
    Work("3-D U-Net, Cicek", lambda: build("unet", preset="cicek-2016")),
    Work("U-Net, torchgpipe 6-72", lambda: build("deep_unet", preset="torchgpipe-6-72"), quick=True),
    Work("U-Net, torchgpipe 11-128", lambda: build("deep_unet", preset="torchgpipe-11-128")),
    Work("AmoebaNet-D 18-256", lambda: build("amoebanet", preset="gpipe-18-256")),
    Work("BigSSL Conformer, 8 layers", lambda: build("conformer", preset="bigssl-10b", layers=8, scan=False)),
    Work("GPT-3 1.3B, 8 layers", lambda: build("gpt", preset="gpt3-1.3b", layers=8, batch=32, scan=False)),
)


def stages(*, quick: bool) -> dict[str, Any]:
    """The record of all cases; `quick` are two programs, in two stages each."""
    rows = [row for work in WORKS if work.quick or not quick for row in _compare(work, (2,) if quick else (2, 4))]
    ratios = [each["ratio"] for each in rows]
    return {
        "cases": len(rows),
        "better": sum(each < BETTER for each in ratios),
        "ratio": round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 3),
        "best": min(ratios),
        "worst": max(ratios),
        "slowest": max(each["took"] for each in rows),
        "rows": rows,
    }


def _compare(work: Work, counts: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    program = work.make()
    for count in counts:
        for hardware, mesh in HARDWARE[count]:
            plan = Plan(program, mesh, hardware=hardware, pipeline=f"stages:{count} micro_batches:{MICRO_BATCHES}")
            row = {"name": work.name, "hardware": hardware, "mesh": mesh, **_compare_layouts(plan)}
            text = f"{row['seconds'] * 1e3:10.3f} ms, {row['other']} {row['other_seconds'] * 1e3:10.3f} ms, {row['ratio']:.3f}"
            print(f"{work.name:28} {hardware:18} {mesh:16} {text}", flush=True)
            yield row


def _compare_layouts(plan: Plan) -> dict[str, Any]:
    assert plan.hardware is not None  # each case has some
    memory = plan.hardware.chip.memory
    known = dict(_list_uniform(plan))
    other = min(known, key=lambda each: _key(known[each][1], memory))
    begin = time.perf_counter()
    found = choose_stages([partial(_take, each) for each, _ in known.values()], memory)
    took = time.perf_counter() - begin
    figures, others = evaluate_plan(found), known[other][1]
    comparable = (figures.memory <= memory) == (others.memory <= memory)
    return {
        "seconds": figures.seconds,
        "other": other,
        "other_seconds": others.seconds,
        "ratio": round(figures.seconds / others.seconds, 4) if comparable else 0.0,
        "memory": [round(each.memory / 2**30, 2) for each in (figures, others)],
        "layouts": len(known),
        "boundaries": list(found.pipeline.boundaries) if found.pipeline else [],
        "statements": len(found.layout.statements),
        "layout": str(found.layout),
        "took": round(took, 2),
    }


def _key(figures: Figures, memory: float) -> tuple[float, ...]:
    return (0, figures.seconds) if figures.memory <= memory else (1, figures.memory)


def _take(plan: Plan) -> Plan:
    return plan


def _list_uniform(plan: Plan) -> Iterator[tuple[str, tuple[Plan, Figures]]]:
    """Each legal layout that a stage may choose, had by all of them."""
    for each in _of_stages(plan):
        try:
            found = each.apply(plan)
            yield each.name, (found, evaluate_plan(found))
        except WorkbenchError:
            continue


def _of_stages(plan: Plan) -> tuple[LayoutChoice, ...]:
    choices = list_layout_choices(plan.updated(pipeline=None), ("stage", "model"))
    return next(each.of_stages for each in choices if each.name == PER_STAGE)
