"""Choices that others measured: would the workbench have chosen as they did? (`tests/published/search_anchors.json`)

- Megatron-LM at SC'21: thirty runs of figures 12 to 15, each built as real programs (`published.py`), priced as eager PyTorch on A100. In
  each group `pick` is what the run that is predicted to be the fastest costs over the one that was, and `tau` how alike the orders are
  (Kendall's, 1 is the same).
- GSPMD on TPU v3: the meshes of its two-dimensional sharding, and its pipelined runs on 256 cores. The optimizer is Adam in place of
  Adafactor, layers are recomputed whole; only the order is compared.
- Kuaishou on H800: which of four runs fit.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from scipy.stats import kendalltau

from benchmarks.published import predict
from benchmarks.published_rows import Row
from benchmarks.search_programs import program_of
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.remat import Remat
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.models.decoder.decoder_config import PRESETS, DecoderConfig
from workbench.public_plan import Plan
from workbench.search.layout_choices import RecipeMove
from workbench.search.search_figures import Figures, evaluate_plan

DATA = Path(__file__).parents[1] / "tests" / "published" / "search_anchors.json"
SEQUENCE, VOCABULARY = 2048, 51200
_QUICK_GROUPS = ("figure 14", "figure 15, batch 32", "64 cores", "128 cores")


@dataclass(frozen=True)
class Choice:
    """One of several runs that could be chosen: seconds measured and predicted."""

    group: str
    name: str
    measured: float
    predicted: float


def read_rows(table: str) -> list[dict[str, Any]]:
    """The rows of a table, each by the names of its columns."""
    found = json.loads(DATA.read_text())[table]
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def megatron_row(row: Mapping[str, Any]) -> Row:
    """A run of the figures: micro-batches of one sequence."""
    layers, hidden, batch, gpus = row["layers"], row["hidden"], row["batch"], row["gpus"]
    replicas = gpus // (row["tensor"] * row["pipe"])
    flops = 96 * batch * SEQUENCE * layers * hidden**2 * (1 + SEQUENCE / (6 * hidden) + VOCABULARY / (16 * layers * hidden))
    name = f"p {row['pipe']} t {row['tensor']} d {replicas} B {batch} chunks {row['chunks']}"
    spec = PipelineSpec(
        row["pipe"], batch // replicas, "1f1b" if row["chunks"] == 1 else "interleaved", row["chunks"], remat="never"
    )  # what is recomputed is in the traced micro-batch
    seconds = flops / (row["tflops"] * 1e12 * gpus)
    config = _config(layers, hidden, row["heads"])
    return Row(
        "sc21", name, "A100", config, seconds, tensor=row["tensor"], pipe=row["pipe"], replicas=replicas, spec=spec, accumulate="float16"
    )


def _config(layers: int, hidden: int, heads: int) -> DecoderConfig:
    base = replace(PRESETS["megatron-22b"], layers=layers, d_model=hidden, kv_heads=heads, d_head=hidden // heads, d_ff=4 * hidden)
    return replace(base, batch=1, recompute="replay")


def price_megatron(groups: Iterable[str] = ()) -> Iterator[Choice]:
    """The figures' runs, priced."""
    for row in read_rows("megatron_sc21_figures"):
        if not groups or row["group"] in groups:
            built = megatron_row(row)
            yield Choice(row["group"], built.name, built.seconds or math.nan, predict(built).seconds)


def gspmd_plan(row: Mapping[str, Any]) -> Plan:
    """A run of GSPMD's as a plan. Raises `WorkbenchError` where it cannot be laid out so."""
    shape = (("layers", 64), ("d_model", 4096), ("heads", 64), ("d_head", 128), ("d_ff", 16384), ("seq", 1024))
    program = program_of("gpt", (("preset", "gspmd-64b"), *shape, ("batch", row["batch"])))
    cores = row["stages"] * row["x"] * row["y"]
    rows = 2 ** (int(math.log2(cores // 2)) // 2)
    plan = Plan(program, f"stage:{row['stages']} data:{row['x']} model:{row['y']}", "", hardware=f"TPU v3 {rows}x{cores // 2 // rows}")
    plan = RecipeMove("two_dimensional", ("data", "model")).apply(plan)
    if row["stages"] == 1:
        return plan.updated(program=program.variant(remat=Remat("full")))
    return plan.updated(pipeline=PipelineSpec(row["stages"], row["micro_batches"], "gpipe", remat="always"))


def price_gspmd(groups: Iterable[str] = ()) -> Iterator[Choice]:
    """GSPMD's runs, priced; what cannot be expressed is said and left out."""
    for row in read_rows("gspmd_tpu_v3"):
        name = f"({row['stages']}, {row['x']}, {row['y']}) x {row['micro_batches']}"
        if groups and row["group"] not in groups:
            continue
        try:
            found: Figures = evaluate_plan(gspmd_plan(row))
        except WorkbenchError as error:
            print(f"{row['group']} {name}: {error}", flush=True)
            continue
        yield Choice(row["group"], name, row["seconds"], found.seconds)


def compare(choices: Iterable[Choice]) -> dict[str, dict[str, Any]]:
    """For each group, what the predicted choice costs over the measured one, the order, and how far the seconds are off on average."""
    groups: dict[str, list[Choice]] = {}
    for each in choices:
        groups.setdefault(each.group, []).append(each)
        off = each.predicted / each.measured - 1
        print(f"{each.group:24} {each.name:36} {each.measured:8.3f} {each.predicted:8.3f} s {off:+6.1%}", flush=True)
    return {group: _compare_group(members) for group, members in groups.items()}


def _compare_group(members: list[Choice]) -> dict[str, Any]:
    pick = min(members, key=lambda each: each.predicted)
    measured, predicted = [each.measured for each in members], [each.predicted for each in members]
    return {
        "runs": len(members),
        "pick": round(pick.measured / min(measured) - 1, 4),
        "tau": round(float(kendalltau(measured, predicted).statistic), 3),
        "off": round(sum(abs(each.predicted / each.measured - 1) for each in members) / len(members), 3),
    }


@cache
def _h800_bytes() -> int:
    return parse_hardware("32 nodes of 8 H800, eager").chip.memory


def price_kuaishou() -> dict[str, Any]:
    """Which of Kuaishou's runs fit, beside what they say."""
    right, rows = 0, read_rows("kuaishou_h800_fits")
    for row in rows:
        replicas = 256 // (row["tensor"] * row["context"] * row["pipe"])
        spec = PipelineSpec(row["pipe"], 256 // replicas, "interleaved", row["chunks"], remat="never")
        base = replace(PRESETS["llama2-70b"], layers=row["layers"], d_model=row["hidden"], d_ff=row["ffn"], vocab=32_000, seq=4096, batch=1)
        config = replace(base, kv_heads=row["heads"], q_per_kv=1, d_head=row["hidden"] // row["heads"])
        shares = {"tensor": row["tensor"], "context": row["context"], "pipe": row["pipe"], "replicas": replicas}
        found = predict(Row("kuaishou", row["model"], "H800", config, None, **shares, spec=spec, splits_sequence=True, shares_state=True))
        fits = found.memory <= _h800_bytes()
        right += fits == row["fits"]
        sizes = f"({row['tensor']}, {row['context']}, {row['pipe']})"
        shown = f"{found.memory / 2**30:.1f} of {_h800_bytes() / 2**30:.1f} GiB"
        print(f"{row['model']} {sizes}: {shown}, published as fitting: {row['fits']}", flush=True)
    return {"runs": len(rows), "right": right}


def published(*, quick: bool) -> dict[str, Any]:
    """All tables; with `quick` two figures and GSPMD's meshes."""
    groups = _QUICK_GROUPS if quick else ()
    found: dict[str, Any] = {"megatron": compare(price_megatron(groups)), "gspmd": compare(price_gspmd(groups))}
    picks = [each["pick"] for table in found.values() for each in table.values()]
    return {**found, "worst_pick": max(picks), **({} if quick else {"kuaishou": price_kuaishou()})}
