"""Rows that others published, each built as real programs of the zoo, planned, and set beside the measurement.

A row of a pipeline or of accumulated gradients is several programs: one micro-batch on the first, a middle and the last stage, and the
update of each; `workbench.pipeline` puts their reports together. A row without either is one training step.

    python benchmarks/published.py [TABLE ...] [--quick] [--json]      prints every row: published, predicted, error
"""

import argparse
import json
import math
import multiprocessing
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache

import workbench as wb
from benchmarks.published_layouts import model_rules, split_states, stage_plans
from benchmarks.published_rows import GIB, TABLES, Row
from tests.support.residual_bytes import count_residual_bytes
from workbench.core.program import Program
from workbench.core.schedules.stage_cost import StageCost
from workbench.core.tensor import Role
from workbench.cost.collective_times import collective_seconds
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.models.decoder import decoder, decoder_stage
from workbench.models.decoder.decoder_config import DecoderConfig
from workbench.models.decoder.decoder_layouts import sequence_parallel
from workbench.models.mixture.mixture_config import MixtureConfig
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_transfer import Transfer
from workbench.reports.collective import Collective
from workbench.reports.report import Report


@dataclass(frozen=True)
class Stage:
    """One device's part of a row: reports of its micro-batch and of its update."""

    micro_batch: Report
    update: Report
    kept: int


@dataclass(frozen=True)
class Prediction:
    row: Row
    seconds: float
    memory: float
    parts: Mapping[str, float]

    @property
    def time_error(self) -> float:
        """Signed, relative to what was measured."""
        return self.seconds / self.row.seconds - 1 if self.row.seconds else math.nan

    @property
    def memory_error(self) -> float:
        return self.memory / self.row.memory - 1 if self.row.memory else math.nan


@cache
def _micro_batch(config: DecoderConfig, first: bool, last: bool, accumulate: str) -> Program:
    return decoder_stage.micro_batch(config, first=first, last=last, accumulate=accumulate)


@cache
def _update(config: DecoderConfig, first: bool, last: bool, replicas: int, accumulate: str) -> Program:
    return decoder_stage.update(config, first=first, last=last, replicas=replicas, accumulate=accumulate)


def _stage_layout(row: Row, program: Program, *, first: bool, last: bool) -> str:
    parts = [model_rules(program), *(["seq:context"] if row.context > 1 else [])]
    if row.splits_sequence and row.tensor * row.context > 1:
        parts.append(sequence_parallel(context="context" if row.context > 1 else "-", first=first, last=last))
    return "; ".join(parts)


def _update_layout(row: Row, program: Program) -> str:
    """The model's axis as in the stage; optimizer state split over the replicas along the first dimension that allows it."""
    replicas = row.replicas * row.context
    states = split_states(program, replicas) if row.shares_state and replicas > 1 else ()
    return "; ".join([model_rules(program), "replica:data", *states])


def _stage(row: Row, number: int, hardware: Hardware) -> Stage:
    if isinstance(row.config, MixtureConfig):
        plan, end = stage_plans(row.config, row.replicas, row.pipe, number, hardware)
    else:
        plan, end = _decoder_plans(row, number, hardware)
    return Stage(plan.report(), end.report(), count_residual_bytes(plan))


def _decoder_plans(row: Row, number: int, hardware: Hardware) -> tuple[wb.Plan, wb.Plan]:
    """Of one stage: a micro-batch's, and the update's."""
    first, last = number == 0, number == row.pipe - 1
    config = replace(row.config, layers=row.config.layers // row.pipe)
    micro = _micro_batch(config, first, last, row.accumulate)
    mesh = f"context:{row.context} model:{row.tensor}" if row.context > 1 else f"model:{row.tensor}"
    plan = wb.Plan(micro, mesh, _stage_layout(row, micro, first=first, last=last), hardware=hardware)
    replicas = row.replicas * row.context
    update = _update(config, first, last, replicas, row.accumulate)
    end = wb.Plan(update, f"data:{replicas} model:{row.tensor}", _update_layout(row, update), hardware=hardware)
    return plan, end


def _dummies(report: Report) -> int:
    """Transformer Engine keeps one stand-in, of the parameters' type, for the gradient of each shape of weight that a product uses (its
    `get_dummy_wgrad`): the true gradient is added to the float32 sum inside the product."""
    matrices = [each for each in report.arguments if each.tensor.role is Role.PARAMETER and re.search(r"/w\w*$", each.tensor.path)]
    experts = [each.local_shape[0] if each.tensor.dims[0] == "experts" else 1 for each in matrices]  # one stand-in for all of them
    return sum({(each.local_shape, n): each.local_bytes // n for each, n in zip(matrices, experts, strict=True)}.values())


def predict(row: Row, efficiency: Mapping[str, float] | None = None) -> Prediction:
    """Seconds of a step and bytes on the fullest device; `efficiency` instead of the catalogue's."""
    hardware = _hardware(row, efficiency or {})
    if row.table == "maxtext":
        return _predict_step(row, hardware)
    numbers = sorted({0, min(1, row.pipe - 1), row.pipe - 1})  # all in between are alike
    stages = {number: _stage(row, number, hardware) for number in numbers}
    costs = {number: _piece_cost(row, stage) for number, stage in stages.items()}
    pieces = [costs[min(number, 1) if number < row.pipe - 1 else number] for number in range(row.pipe)] * row.spec.chunks
    transfer = _transfer_seconds(row, hardware)
    step = simulate(row.spec, pieces, Transfer(lambda _: transfer, overlapped=False))
    update = max(stage.update.step_time.total for stage in stages.values())
    work = max(step.busy)
    return Prediction(row, step.makespan + update, max(step.peaks), {"work": work, "waiting": step.makespan - work, "update": update})


def _piece_cost(row: Row, stage: Stage) -> StageCost:
    """Of a chunk of a stage: its share of the stage's time, a third of it forward, and of what the stage keeps."""
    chunks = row.spec.chunks
    seconds = _seconds(row, stage.micro_batch) / chunks
    held, passing = _stage_bytes(row, stage)
    return StageCost(seconds / 3, seconds / 3, seconds / 3, held // chunks, stage.kept // chunks, passing)


def _seconds(row: Row, one: Report) -> float:
    """Of a micro-batch, without the sums of gradients over replicas: Megatron-LM has these once a step, and so has the update. Where there
    are any, or where the run overlaps nothing, the other collectives are waited for."""
    if not row.waits and not any(map(_is_deferred, one.collectives)):
        return one.step_time.total
    others = sum(each.seconds * each.count for each in one.collectives if not _is_deferred(each))
    return one.step_time.total - one.step_time.exposed + others


def _is_deferred(collective: Collective) -> bool:
    return collective.kind == "all-reduce" and collective.axes in (("context",), ("expert",))


def _stage_bytes(row: Row, stage: Stage) -> tuple[int, int]:
    """Held throughout, and passing while a micro-batch is worked on."""
    one = stage.micro_batch
    arguments = sum(each.local_bytes for each in one.arguments)
    state = sum(each.local_bytes for each in stage.update.arguments if each.tensor.role is Role.OPTIMIZER_STATE)
    held = arguments + state + (_dummies(one) if row.dummies else 0)
    deferred = {f"{each.path} (all-reduce)" for each in one.collectives if _is_deferred(each)}
    passing = one.memory.peak - arguments - stage.kept - sum(each.bytes for each in one.alive if each.path in deferred)
    return held, passing


def _transfer_seconds(row: Row, hardware: Hardware) -> float:
    """Each device sends its share of the activations to the next stage; where a stage needs them whole, its devices gather them behind
    (Narayanan et al. 2021b, section 4.1)."""
    if row.pipe == 1:
        return 0.0
    config, shares = row.config, row.tensor * row.context
    whole = config.batch * config.seq * config.d_model * 2
    mesh = wb.Mesh(f"data:{row.replicas} pipe:{row.pipe} model:{shares}")
    sent = collective_seconds("collective-permute", ("pipe",), whole // shares, mesh, hardware) / hardware.chip.efficiency_of("transfer")
    return sent if row.splits_sequence else sent + collective_seconds("all-gather", ("model",), whole, mesh, hardware)


def _hardware(row: Row, efficiency: Mapping[str, float]) -> Hardware:
    """The catalogue's, in whole nodes or slices; on A100 in eager PyTorch. Transformer Engine's kernels on B200 join about as much as XLA's
    do: products add to the sums of gradients, and the loss's gradient is in place of the logits."""
    nodes = math.ceil(row.devices / 8)
    if row.hardware == "v5e":
        text = f"{row.replicas} slices of TPU v5e 16x16" if row.replicas > 1 else "TPU v5e 16x16"
    else:
        runtime = "" if row.dummies else ", eager"
        text = f"{nodes} nodes of 8 {row.hardware}{runtime}" if nodes > 1 else f"8 {row.hardware}{runtime}"
    hardware = parse_hardware(text)
    return replace(hardware, chip=replace(hardware.chip, efficiency={**hardware.chip.efficiency, **efficiency}))


def _predict_step(row: Row, hardware: Hardware) -> Prediction:
    """One training step, parameters split over a slice."""
    fsdp = 256 // row.tensor
    mesh = f"slice:{row.replicas} fsdp:{fsdp} model:{row.tensor}"
    config = replace(row.config, batch=row.config.batch * row.replicas)
    layout = "batch:slice+fsdp; d_model:fsdp; @embedding/stream/reduce_precision=[slice+fsdp, ?, ?]"
    if row.tensor > 1:
        layout += "; kv_heads:model; d_ff:model; vocab:model; " + sequence_parallel(batch="slice+fsdp")
    report = wb.Plan(_training(config), mesh, layout, hardware=hardware).report()
    time = report.step_time
    parts = {"compute": time.compute, "launch": time.launch, "exposed": time.exposed, "hidden": time.hidden}
    return Prediction(row, time.total, report.memory.peak, parts)


@cache
def _training(config: DecoderConfig) -> Program:
    return decoder.training_step(config)


def predictions(tables: Iterable[str] = tuple(TABLES)) -> list[Prediction]:
    """Of every row: one at a time in a process for each core, since tracing dozens of layers keeps one core busy."""
    rows = [row for table in tables for row in TABLES[table]()]
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(rows)), multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(predict, rows))


def published_errors(found: Iterable[Prediction] | None = None) -> dict[str, float]:
    """Mean absolute relative error of each table's times, and of `b200`'s memory."""
    found = list(found or predictions())
    errors = {table: [abs(each.time_error) for each in found if each.row.table == table] for table in TABLES}
    errors["b200_memory"] = [abs(each.memory_error) for each in found if each.row.memory]
    return {table: sum(each) / len(each) for table, each in errors.items() if each}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=[], help=", ".join(TABLES))
    parser.add_argument("--quick", action="store_true", help="the tables that take seconds")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    found = predictions(options.tables or (["b200", "maxtext"] if options.quick else TABLES))
    for each in found:
        print(_line(each))
    errors = published_errors(found)
    for table, error in errors.items():
        print(f"{table:12} {error:.2%}")
    if options.json:
        print(json.dumps({table: round(error, 4) for table, error in errors.items()}))


def _line(each: Prediction) -> str:
    row = each.row
    parts = "  ".join(f"{name} {seconds:.3f}" for name, seconds in each.parts.items())
    memory = (
        f"{row.memory / GIB:7.2f} {each.memory / GIB:7.2f} GiB {each.memory_error:+6.1%}" if row.memory else f"{each.memory / GIB:7.2f} GiB"
    )
    return f"{row.table:9} {row.name:50} {row.seconds:8.3f} {each.seconds:8.3f} s {each.time_error:+6.1%}   {memory}   {parts}"


if __name__ == "__main__":
    main()
