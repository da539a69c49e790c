"""Each operation split by itself (`per_operation.choose_layout`), beside every known recipe and every set of named dimensions.

Programs of the zoo, at sizes of their papers, over one mesh each with the examples over `data` or not: the planner's seconds of a step with
the layout found, and with the best of the others that `list_layout_choices` has; both again by XLA's partitioner, so that neither rests on
what the planner only guessed. `faster` is the share of cases in which the layout found is at least as fast (within 0.5 %), `ratio` the
geometric mean of its seconds over the others', `solved_off` the mean difference between the sum that the solver made small and the planned
step.

`third_party`: programs of other people's packages that are installed (extra `corpus`), nothing of which is known, over one axis of eight
devices; beside the best of the layouts that their users would state: data parallel, tensor parallel, ZeRO 3.
"""

import math
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.corpus.program import TARGET, traced
from benchmarks.corpus.third_party import PROGRAMS
from benchmarks.search_programs import Work
from workbench.cost.estimate import estimate
from workbench.engine import partition_plan
from workbench.errors import WorkbenchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.layout_choices import PER_OPERATION, list_layout_choices
from workbench.search.per_operation.choose_layout import GAP, ITERATIONS, choose_layout
from workbench.search.per_operation.program_problem import make_program_problem
from workbench.search.per_operation.solve_problem import solve
from workbench.search.search_figures import evaluate_plan

ALIKE = 1.005
STATED = ("data parallel", "tensor parallel", "zero 3")
HARDWARE = ("8 H100", "TPU v5p 2x2x2")
MESHES = (("data:1 model:8", ""), ("data:2 model:4", "batch:data"))


WORKS = (
    Work("Llama 3 8B, 8 x 4,096", lambda: build("decoder", preset="llama3-8b", layers=4, batch=8, seq=4096), quick=True),
    Work("Llama 3 8B, 1 x 8,192", lambda: build("decoder", preset="llama3-8b", layers=4, batch=1, seq=8192), quick=True),
    Work("GPT-3 1.3B", lambda: build("gpt", preset="gpt3-1.3b", batch=32)),
    Work("GLaM 64B/64E", lambda: build("mixture", preset="glam-64b-64e", layers=4)),
    Work("T5 11B", lambda: build("t5", preset="t5-11b")),
    Work("BigSSL Conformer 10B", lambda: build("conformer", preset="bigssl-10b")),
    Work("3-D U-Net, Mesh-TensorFlow", lambda: build("unet", preset="mesh-tensorflow")),
    Work("3-D U-Net, KiTS19", lambda: build("unet", preset="mlperf-kits19")),
    Work("U-Net, torchgpipe", lambda: build("deep_unet", preset="torchgpipe-6-72")),
)


def operations(*, quick: bool) -> dict[str, Any]:
    """The record of all cases; a mesh that the program's examples do not divide over is no case."""
    rows = [row for work in WORKS if work.quick or not quick for row in _compare(work)]
    ratios = [each["seconds"] / each["other_seconds"] for each in rows]
    asked = [each["partitioned"] / each["other_partitioned"] for each in rows if each["partitioned"] and each["other_partitioned"]]
    return {
        "cases": len(rows),
        "faster": round(sum(each <= ALIKE for each in ratios) / len(ratios), 3),
        "ratio": _mean(ratios),
        "partitioned_faster": round(sum(each <= ALIKE for each in asked) / len(asked), 3),
        "partitioned_ratio": _mean(asked),
        "solved_off": round(sum(abs(each["solved"] / each["seconds"] - 1) for each in rows) / len(rows), 3),
        "slowest": max(each["took"] for each in rows),
        "third_party": _third_party() if not quick else None,
        "rows": rows,
    }


def _third_party() -> dict[str, Any]:
    """The same beside what users of the packages would state, in seconds by the planner."""
    found = {}
    for each in PROGRAMS:
        if each.missing:
            continue
        plan = Plan(traced(each), "model:8", hardware=TARGET)
        own = evaluate_plan(plan.updated(layout=choose_layout(plan, "model"))).seconds
        stated = min(evaluate_plan(each.plan(layout)).seconds for layout in STATED)
        found[each.name] = round(own / stated, 3)
        print(f"{each.name:28} {TARGET:14} {own * 1e3:10.3f} ms, as stated {stated * 1e3:10.3f} ms", flush=True)
    return {"programs": len(found), "missing": len(PROGRAMS) - len(found), "ratio": _mean(list(found.values())), "ratios": found}


def _mean(ratios: list[float]) -> float:
    """The geometric mean; 0 of none."""
    return round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 3) if ratios else 0.0


def _compare(work: Work) -> Iterator[dict[str, Any]]:
    program = work.make()
    for hardware in HARDWARE:
        for mesh, layout in MESHES:
            try:
                plan = Plan(program, mesh, layout, hardware=hardware)
            except WorkbenchError:
                continue
            row = {"name": work.name, "hardware": hardware, "mesh": mesh, **_compare_layouts(plan)}
            text = f"{row['seconds'] * 1e3:10.3f} ms, {row['other']} {row['other_seconds'] * 1e3:10.3f} ms"
            print(f"{work.name:28} {hardware:14} {mesh:15} {text}", flush=True)
            yield row


def _compare_layouts(plan: Plan) -> dict[str, Any]:
    begin = time.perf_counter()
    found = plan.updated(layout=choose_layout(plan, "model"))
    took = time.perf_counter() - begin
    others = dict(_list_others(plan))
    seconds = {name: evaluate_plan(other).seconds for name, other in others.items()}
    other = min(seconds, key=seconds.__getitem__)
    solved = solve(make_program_problem(estimate(plan), "model").problem.without_limit(), iterations=ITERATIONS, gap=GAP)
    return {
        "seconds": evaluate_plan(found).seconds,
        "partitioned": _partitioned_seconds(found),
        "other": other,
        "other_seconds": seconds[other],
        "other_partitioned": _partitioned_seconds(others[other]),
        "solved": solved.cost / 1e9,
        "statements": len(found.layout.statements),
        "took": round(took, 2),
    }


def _list_others(plan: Plan) -> Iterator[tuple[str, Plan]]:
    for each in list_layout_choices(plan, ("data", "model")):
        if each.name != PER_OPERATION:
            try:
                yield each.name, each.apply(plan)
            except WorkbenchError:
                continue


def _partitioned_seconds(plan: Plan) -> float | None:
    """Seconds with XLA's own collectives; `None` where it refuses the plan."""
    try:
        step = estimate(plan, answer=partition_plan(plan)).step_time
    except WorkbenchError:
        return None
    return step.total if step else None
