"""The Ultra-Scale Playbook's benchmark: nanotron, eager PyTorch, trains four Llamas on 1 to 64 nodes of 8 H100 in 1,772 ways, of which 952
ran (`tests/published/ultrascale.csv`; nanotron/ultrascale-playbook, Apache-2.0, as packed by vinjn/nanotron-ultrascale-playbook@924e4d0).

Each row is built as real programs of the zoo, eager: a micro-batch of two and of three layers in the first, a middle and the last stage,
and the update of two and of three. What a stage of any number of layers takes follows, layers being alike.

What nanotron does, from its source: sequence parallelism with tensor parallelism (`REDUCE_SCATTER`); gradients summed in float32 over
micro-batches, and over replicas after the last; AdamW with float32 copies of the weights; ZeRO 1 splits these; blocks go to stages in order
until a stage has its share of the work, the head's by its parameters (`build_model`); one-forward-one-backward.

    python benchmarks/published_ultrascale.py [--quick] [--json] [--rows]
"""

import argparse
import csv
import json
import math
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

import workbench as wb
from benchmarks.published_layouts import model_rules, split_states
from tests.support.residual_bytes import count_residual_bytes
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.program import Program
from workbench.core.schedules.stage_cost import StageCost
from workbench.core.tensor import Role
from workbench.cost.collective_times import collective_seconds
from workbench.cost.estimate import Estimate, estimate, estimate_on
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.models.decoder import decoder_stage
from workbench.models.decoder.decoder_config import DecoderConfig
from workbench.models.decoder.decoder_layouts import sequence_parallel
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_transfer import Transfer

DATA = Path(__file__).parents[1] / "tests" / "published" / "ultrascale.csv"
SEQUENCE = 4096
# layers, d_model, d_ff, heads (nanotron's configurations; no grouped queries; a vocabulary of 131,072)
MODELS = {"1B": (16, 2048, 8192, 32), "3B": (28, 3072, 8192, 32), "8B": (32, 4096, 14336, 32), "80B": (80, 8192, 28672, 64)}
FITTED = frozenset({("1B", 1), ("3B", 4), ("8B", 16), ("80B", 4), ("1B", 16), ("3B", 1), ("8B", 4), ("80B", 64), ("1B", 64)})
"""Model and nodes of the rows that constants are fitted on; fixed before anything was fitted. Half of the groups of each node count, and
each model on both sides."""


_KEEPS_GATHERED = "".join(f"; @{part}/normal/reduce_precision=[-, -, ?]" for part in ("attention", "mlp"))
"""What a product of split columns reads is gathered once and kept for its backward pass (`tp_recompute_allgather: false`). So were most
rows run, by the memory they took; a row that ran and would not fit so was not."""


class Run(NamedTuple):
    """One row: how it was run, and what was measured (tokens a second and GPU, bytes a GPU)."""

    model: str
    nodes: int
    replicas: int
    tensor: int
    pipe: int
    zero: int
    micro_batch: int
    micro_batches: int
    tokens: float
    memory: float

    @property
    def seconds(self) -> float:
        """Of a step."""
        sequences = self.replicas * self.micro_batch * self.micro_batches
        return sequences * SEQUENCE / (self.tokens * self.nodes * 8)

    @property
    def group(self) -> tuple[str, int]:
        return self.model, self.nodes

    @property
    def is_fitted(self) -> bool:
        return self.group in FITTED

    @property
    def is_steady(self) -> bool:
        """Whether the source agrees with itself on such rows: of pairs that differ in ZeRO alone, those on 64 nodes and those whose
        pipeline crosses nodes are 3 times apart (median; up to 60), all others 1 to 10 %. Only steady rows count for time."""
        return self.nodes == 1 or (self.nodes < 64 and self.pipe == 1)


@cache
def runs() -> tuple[Run, ...]:
    """The rows that ran, in the order of the file."""
    with DATA.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["mfu_pct"] != "nan"]
    names = ("dp", "tp", "pp", "zero", "mbs", "grad_acc")
    return tuple(
        Run(
            row["model"],
            int(row["nodes"]),
            *(int(row[name]) for name in names),
            float(row["tok_s_gpu"]),
            float(row["gpu_memory_gb"]) * 2**30,
        )
        for row in rows
    )


def config_of(model: str, micro_batch: int, layers: int) -> DecoderConfig:
    """A part of a model: its kernels are those of flash-attn and Triton that nanotron calls; silu and its product with a gate are two."""
    _, d_model, d_ff, heads = MODELS[model]
    return DecoderConfig(
        vocab=131072,
        layers=layers,
        d_model=d_model,
        kv_heads=heads,
        q_per_kv=1,
        d_head=d_model // heads,
        d_ff=d_ff,
        seq=SEQUENCE,
        batch=micro_batch,
        gate_up=2,
        fused="attention norm rotary nonlinearity",
        recompute="kernels",
        params="bfloat16",
    )


class Part(NamedTuple):
    """Seconds of a micro-batch, of the update and of summing gradients over replicas before it, and bytes, of a layer or of one end of the
    model."""

    micro_batch: float
    update: float
    sums: float
    held: float
    kept: float
    passing: float

    def plus(self, other: "Part", times: float = 1) -> "Part":
        return Part(*(a + times * b for a, b in zip(self, other, strict=True)))


NOTHING = Part(0, 0, 0, 0, 0, 0)


class Parts(NamedTuple):
    """`passing` of the ends is the most that is alive while the backward pass works there."""

    layer: Part
    embedding: Part
    head: Part


@cache
def _micro_batch(config: DecoderConfig, first: bool, last: bool) -> Program:
    return decoder_stage.micro_batch(config, first=first, last=last, scan=True)


@cache
def _update(config: DecoderConfig, first: bool, last: bool, replicas: int) -> Program:
    return decoder_stage.update(config, first=first, last=last, replicas=replicas, scan=True)


def _stage_part(run: Run, hardware: Hardware, layers: int, *, keeps: bool, first: bool, last: bool) -> Part:
    """A stage of so many layers, whole; `keeps` what is gathered."""
    inside = _around(hardware, math.ceil(run.tensor / 8))
    one, kept = _micro_batch_estimate(run.model, run.micro_batch, layers, run.tensor, first, last, inside.size, keeps)
    end = _update_estimate(run.model, layers, run.replicas, run.tensor, run.zero, first, last, hardware.size)
    one, end = _on_hardware(one, inside), _on_hardware(end, hardware)
    assert one.step_time
    assert end.step_time
    arguments = sum(each.local_bytes for each in one.arguments if each.tensor.role is not Role.INPUT)
    state = sum(each.local_bytes for each in end.arguments if each.tensor.role is Role.OPTIMIZER_STATE)
    update, sums = end.step_time.total - end.step_time.exposed, end.step_time.exposed
    return Part(one.step_time.total, update, sums, arguments + state, kept, one.memory.peak - arguments - kept)


def _on_hardware(found: Estimate, hardware: Hardware) -> Estimate:
    return found if found.hardware == hardware else estimate_on(found, hardware)


@cache
def _micro_batch_estimate(
    model: str, micro_batch: int, layers: int, tensor: int, first: bool, last: bool, devices: int, keeps: bool
) -> tuple[Estimate, int]:
    """And the bytes kept for the backward pass; on the catalogue's hardware."""
    program = _micro_batch(config_of(model, micro_batch, layers), first, last)
    layout = model_rules(program)
    if tensor > 1:
        layout += "; " + sequence_parallel(first=first, last=last) + (_KEEPS_GATHERED if keeps else "")
    plan = wb.Plan(program, f"model:{tensor}", layout, hardware=hardware_of(devices // 8))
    return estimate(plan), count_residual_bytes(plan)


@cache
def _update_estimate(model: str, layers: int, replicas: int, tensor: int, zero: int, first: bool, last: bool, devices: int) -> Estimate:
    program = _update(config_of(model, 1, layers), first, last, replicas)
    layout = f"{model_rules(program)}; replica:data"
    if zero and replicas > 1:
        layout += "; " + "; ".join(split_states(program, replicas))
    return estimate(wb.Plan(program, f"data:{replicas} model:{tensor}", layout, hardware=hardware_of(devices // 8)))


@cache
def hardware_of(nodes: int) -> Hardware:
    return parse_hardware(f"{nodes} nodes of 8 H100 EFA, nanotron" if nodes > 1 else "8 H100 EFA, nanotron")


def _around(hardware: Hardware, nodes: int) -> Hardware:
    """So many of its nodes."""
    axes = hardware.axes[-1:] if nodes == 1 else (replace(hardware.axes[0], size=nodes), *hardware.axes[1:])
    return replace(hardware, axes=axes, name=hardware_of(nodes).name)


@cache
def _parts(key: Run, hardware: Hardware, *, keeps: bool) -> Parts:
    """`key` is a run by what its parts depend on (`_key`)."""
    two, three = (_stage_part(key, hardware, layers, keeps=keeps, first=False, last=False) for layers in (2, 3))
    layer = three.plus(two, -1)
    first, last = (_stage_part(key, hardware, 2, keeps=keeps, first=end, last=not end) for end in (True, False))
    return Parts(layer, first.plus(layer, -2), last.plus(layer, -2))


def split_blocks(layers: int, layer: float, head: float, stages: int) -> list[tuple[int, bool]]:
    """(layers, has the head) of each stage: blocks go to a stage until the work so far exceeds its share."""
    total = layers * layer + head
    found, stage, done = [[0, False] for _ in range(stages)], 0, 0.0
    for block in range(layers + 1):
        is_head = block == layers
        found[stage] = [found[stage][0] + (not is_head), is_head]
        done += head if is_head else layer
        if done > total * (stage + 1) / stages and stage + 1 < stages:
            stage += 1
    return [(count, bool(head)) for count, head in found]


@dataclass(frozen=True)
class Prediction:
    run: Run
    seconds: float
    memory: float
    parts: Mapping[str, float]

    @property
    def tokens(self) -> float:
        """A second and GPU: for one model, in proportion to its model FLOPs utilisation, whatever the batch."""
        return self.run.tokens * self.run.seconds / self.seconds

    @property
    def time_error(self) -> float:
        return self.seconds / self.run.seconds - 1

    @property
    def memory_error(self) -> float:
        return self.memory / self.run.memory - 1


def predict(run: Run, change: Callable[[Hardware], Hardware] = lambda hardware: hardware) -> Prediction:
    """Seconds of a step and bytes allocated on the fullest device; `change` makes other hardware of the catalogue's."""
    hardware = change(hardware_of(run.nodes))
    found = _predict_so(run, hardware, keeps=True)
    return found if run.tensor == 1 or found.memory < hardware.chip.memory else _predict_so(run, hardware, keeps=False)


def _predict_so(run: Run, hardware: Hardware, *, keeps: bool) -> Prediction:
    """The same, what is gathered kept or not."""
    layer, embedding, head = _parts(_key(run), hardware, keeps=keeps)
    layers, d_model, d_ff, _ = MODELS[run.model]
    blocks = split_blocks(layers, 4 * d_model**2 + 3 * d_model * d_ff, 131072 * d_model, run.pipe)
    stages = []
    for number, (count, has_head) in enumerate(blocks):
        stage = NOTHING.plus(layer, count)
        stage = stage.plus(embedding) if number == 0 else stage
        stages.append(stage.plus(head) if has_head else stage)
    costs = [
        StageCost(each.micro_batch / 3, each.micro_batch / 3, each.micro_batch / 3, int(each.held), int(each.kept), int(each.passing))
        for each in stages
    ]
    sent = _transfer_seconds(run, hardware)
    step = simulate(PipelineSpec(run.pipe, run.micro_batches, "1f1b", remat="never"), costs, Transfer(lambda _: sent, overlapped=False))
    update = max(each.update + _waited_sums(run, each) for each in stages)
    work = max(step.busy)
    parts = {"work": work, "waiting": step.makespan - work, "update": update, "layer": layer.micro_batch, "head": head.micro_batch}
    return Prediction(run, step.makespan + update, max(step.peaks), parts)


def _waited_sums(run: Run, stage: Part) -> float:
    """Seconds of summing gradients that are waited for. Without ZeRO they are summed in buckets while the last micro-batch's backward pass,
    two thirds of it, makes the others (DistributedDataParallel); ZeRO 1 reduces and scatters them behind it."""
    return stage.sums if run.zero else max(stage.sums - stage.micro_batch * 2 / 3, 0.0)


def _key(run: Run) -> Run:
    """The run without what its parts do not depend on."""
    return run._replace(pipe=1, micro_batches=1, tokens=1.0, memory=1.0)


def _transfer_seconds(run: Run, hardware: Hardware) -> float:
    if run.pipe == 1:
        return 0.0
    size = run.micro_batch * SEQUENCE * MODELS[run.model][1] * 2 // run.tensor
    mesh = wb.Mesh(f"pipe:{run.pipe} data:{run.replicas} model:{run.tensor}")
    return collective_seconds("collective-permute", ("pipe",), size, mesh, hardware)


def predictions(chosen: Sequence[Run]) -> list[Prediction]:
    """Rows whose programs are the same go to the same process."""
    order = sorted(range(len(chosen)), key=lambda i: (chosen[i].model, chosen[i].micro_batch, chosen[i].tensor, chosen[i].replicas))
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(chosen)), multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(predict, [chosen[i] for i in order], chunksize=max(len(chosen) // 16, 1)))
    return [each for _, each in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]


def scores(found: Sequence[Prediction]) -> dict[str, float]:
    """`mape` of time, `bias`, `memory` error and its median; medians over (model, nodes) of Spearman's rank correlation of predicted and
    measured utilisation, and of regret: how far below the best measured utilisation that of the row is which is predicted to be the best.
    Not of seconds: three rows have smaller batches, and so shorter steps."""
    from scipy.stats import spearmanr  # takes a second, and only this needs it

    groups: dict[tuple[str, int], list[Prediction]] = {}
    for each in found:
        groups.setdefault(each.run.group, []).append(each)
    large = [group for group in groups.values() if len(group) > 3]
    ranks = [float(spearmanr([each.tokens for each in group], [each.run.tokens for each in group]).statistic) for group in large]
    regrets = []
    for group in large:
        best, chosen = max(each.run.tokens for each in group), max(group, key=lambda each: each.tokens)
        regrets.append(1 - chosen.run.tokens / best)
    count = len(found)
    return {
        "rows": count,
        "mape": round(sum(abs(each.time_error) for each in found) / count, 4),
        "bias": round(sum(each.time_error for each in found) / count, 4),
        "spearman": round(median(ranks), 4) if ranks else math.nan,
        "regret": round(median(regrets), 4) if regrets else math.nan,
        "memory": round(sum(abs(each.memory_error) for each in found) / count, 4),
        "memory_median": round(median(abs(each.memory_error) for each in found), 4),
    }


def _chosen(*, quick: bool) -> tuple[Run, ...]:
    return tuple(run for run in runs() if run.is_steady)[::12] if quick else runs()


def tables_of(found: Sequence[Prediction]) -> dict[str, dict[str, float]]:
    """Scores of both halves: of steady rows, and of all."""
    halves = {"fit": True, "test": False}
    chosen = {name: [each for each in found if each.run.is_fitted == side] for name, side in halves.items()}
    steady = {f"ultrascale_{name}": scores([each for each in rows if each.run.is_steady]) for name, rows in chosen.items()}
    return steady | {f"ultrascale_{name}_all": scores(rows) for name, rows in chosen.items()}


def ultrascale_tables(*, quick: bool = False) -> dict[str, dict[str, float]]:
    """`tables_of` all rows; some of the steady ones if `quick`."""
    return tables_of(predictions(_chosen(quick=quick)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every twelfth steady row")
    parser.add_argument("--rows", action="store_true", help="print each row")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    found = predictions(_chosen(quick=options.quick))
    if options.rows:
        for each in found:
            print(_line(each))
    tables = tables_of(found)
    for name, table in tables.items():
        print(name, table)
    if options.json:
        print(json.dumps(tables))


def _line(each: Prediction) -> str:
    run = each.run
    parts = "  ".join(f"{name} {seconds:.3f}" for name, seconds in each.parts.items())
    how = f"{run.model:3} {run.nodes:2} dp{run.replicas} tp{run.tensor} pp{run.pipe} z{run.zero} mbs{run.micro_batch} x{run.micro_batches}"
    times = f"{run.seconds:8.3f} {each.seconds:8.3f} s {each.time_error:+6.1%}"
    return f"{how:36} {times}  {run.memory / 2**30:6.1f} {each.memory / 2**30:6.1f} GiB {each.memory_error:+6.1%}  {parts}"


if __name__ == "__main__":
    main()
