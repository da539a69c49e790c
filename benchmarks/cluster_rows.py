"""Published runs on clusters, each as the plan that a user would write for it.

The tables are in `tests/published`: `llm_foundry.csv` (mosaicml/llm-foundry at 8c8dd48f, scripts/train/benchmarking/README.md: MPT with
FSDP), `megatron_bridge.csv` (NVIDIA-NeMo/Megatron-Bridge at 067f987d, docs/performance-summary.md and its archive), and
`cluster_runs.toml`, which has a source for each run.

A row is fitted or reported by a digest of what it ran (`ClusterRow.is_fitted`), so that repeated measurements of one setup, in several
versions of a container, are on the same side.
"""

import csv
import hashlib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import workbench as wb
from workbench.core.program import Program
from workbench.models.mixture.mixture import expert_parallel

PUBLISHED = Path(__file__).parents[1] / "tests" / "published"
MPT = {
    "125m": (12, 768, 12),
    "350m": (24, 1024, 16),
    "760m": (24, 1536, 12),
    "1b": (24, 2048, 16),
    "3b": (32, 2560, 20),
    "7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
    "70b": (80, 8192, 64),
}
"""Layers, width and heads (llm-foundry, scripts/train/yamls/pretrain)."""
FOUNDRY, TRANSFORMER_ENGINE, MEGATRON, DEEPSPEED = "eager, flash 1", "Megatron Core", "DeepSpeed", "DeepSpeed"
INFERENCE, FRAMEWORK = "inference engine", "PyTorch inference"


@dataclass(frozen=True)
class ClusterRow:
    """One published run: what was measured, and `plan`, which builds it.

    `seconds` is `None` where only whether it ran is known; `runs` says how many other measurements agree with `seconds`, their mean.
    """

    stack: str
    kind: str
    name: str
    plan: Callable[[], wb.Plan]
    seconds: float | None = None
    ran: bool = True
    runs: int = 1

    @property
    def is_fitted(self) -> bool:
        """Whether the row is in the half that constants may be fitted on: by the last bit of the SHA-256 of stack and name.

        >>> ClusterRow("stack", "training", "name", wb.Plan).is_fitted
        True
        """
        return hashlib.sha256(f"{self.stack}/{self.name}".encode()).digest()[-1] % 2 == 0


def cluster_rows() -> tuple[ClusterRow, ...]:
    """All rows, table by table."""
    return (*_foundry_rows(), *_bridge_rows(), *_single_runs())


def _read(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / name).open(newline="") as file:
        return list(csv.DictReader(file))


def _foundry_rows() -> Iterator[ClusterRow]:
    """MPT, a GPT with biases, trained by FSDP with flash attention; `checkpointing` recomputes whole layers."""
    seen: set[str] = set()
    for row in _read("llm_foundry.csv"):
        is_float8 = row["precision"] == "amp_fp8"
        seconds = int(row["global_batch"]) * int(row["seq"]) / float(row["tokens_s"])
        chip = "H100" if row["gpu"].startswith("h100") else "A100"
        kind = "float8" if is_float8 else "training"
        size = f"micro-batch {row['micro_batch']} x {row['accumulation']}"
        name = f"MPT {row['model']}, {row['seq']} tokens, {row['gpus']} GPUs, {size}{', float8' * is_float8}"
        if name not in seen:
            seen.add(name)
            yield ClusterRow(f"FSDP {chip}", kind, name, partial(_foundry_plan, row, chip, is_float8=is_float8), seconds)


def _foundry_plan(row: Mapping[str, str], chip: str, *, is_float8: bool) -> wb.Plan:
    gpus, accumulation = int(row["gpus"]), int(row["accumulation"])
    layers, d_model, heads = MPT[row["model"]]
    program = _mpt(layers, d_model, heads, int(row["seq"]), int(row["global_batch"]), row["checkpointing"] == "True", is_float8)
    hardware = f"{gpus // 8} nodes of 8 {chip}, {FOUNDRY}" if gpus > 8 else f"8 {chip}, {FOUNDRY}"
    return _accumulated(program, gpus, accumulation, hardware, "zero_3")


def _with_recipes(plan: wb.Plan, *names: str) -> wb.Plan:
    for name in names:
        plan = plan.recipe(name)
    return plan


def _accumulated(program: Program, gpus: int, accumulation: int, hardware: str, *recipes: str) -> wb.Plan:
    """Data parallelism over all devices; gradients are accumulated over micro-batches, written as a pipeline of one stage."""
    pipeline = f"stages:1 micro_batches:{accumulation} schedule:1f1b remat:never"
    if accumulation == 1:
        plan = wb.Plan(program, f"data:{gpus}", "", hardware=hardware)
    else:
        plan = wb.Plan(program, f"stage:1 data:{gpus}", "", hardware=hardware, pipeline=pipeline)
    return _with_recipes(plan, "data_parallel", *recipes)


@cache
def _mpt(layers: int, d_model: int, heads: int, seq: int, batch: int, recompute: bool, float8: bool) -> Program:
    return wb.models.build(
        "decoder",
        preset="llama2-7b",
        vocab=50368,
        layers=layers,
        d_model=d_model,
        kv_heads=heads,
        q_per_kv=1,
        d_head=d_model // heads,
        d_ff=4 * d_model,
        gate_up=1,
        biases=True,
        positions="learned",
        norm="layer",
        tied=True,
        fused="attention norm activation loss",
        recompute="replay" if recompute else "kernels",
        params="float32",
        seq=seq,
        batch=batch,
        float8="tensorwise" if float8 else "",
    )


_BRIDGE = {"LLAMA3_8B": "llama3-8b", "LLAMA3_70B": "llama3-70b", "LLAMA3.1_405B": "llama3-405b"}
_PRECISION = {"FP8": "tensorwise", "FP8-CS": "tensorwise", "FP8-CS (FP8-MX)": "tensorwise", "": "tensorwise", "BF16": ""}
"""What Megatron-Bridge calls FP8 and FP8-CS scales by tensor; rows without an entry were float8 by tensor, too. Microscaled formats, MXFP8
and NVFP4, cannot be said of a decoder."""


def _bridge_rows() -> Iterator[ClusterRow]:
    """Llama 3 in Megatron-Bridge: rows of several containers that ran the same are one, of their mean."""
    found: dict[tuple[str, ...], list[float]] = {}
    for row in _read("megatron_bridge.csv"):
        one_layout = not any("(" in row[key] for key in ("tp", "pp", "cp", "fsdp"))
        if row["model"] in _BRIDGE and row["precision"] in _PRECISION and row["work"] == "Pre-Training" and one_layout:
            fsdp = row["fsdp"] if row["fsdp"] not in ("", "0", "n/a") else "0"
            chunks = row["vp"] if row["vp"].isdigit() else "1"
            key = ("model", "system", "gpus", "gbs", "mbs", "seq", "tp", "pp", "cp")
            found.setdefault((*(row[name] for name in key), chunks, fsdp), []).append(float(row["tokens_s_gpu"].split()[0]))
    for setup, rates in found.items():
        model, system, gpus, gbs, mbs, seq, tp, pp, cp, vp, fsdp = setup
        chip = system.removeprefix("DGX-")
        seconds = int(gbs) * int(seq) / int(gpus) / (sum(rates) / len(rates))
        name = f"{_BRIDGE[model]} on {gpus} {chip}, batch {gbs}, tp{tp} pp{pp}x{vp} cp{cp} fsdp{fsdp} micro-batch {mbs}"
        yield ClusterRow(f"Megatron Core {chip}", "float8", name, partial(_bridge_plan, setup), seconds, runs=len(rates))


def _bridge_plan(setup: tuple[str, ...]) -> wb.Plan:
    model, system = setup[:2]
    gpus, gbs, mbs, seq, tp, pp, cp, vp, fsdp = map(int, setup[2:])
    chip = system.removeprefix("DGX-")
    per_node = 72 if chip.startswith("GB") else 8
    nodes = -(-gpus // per_node)
    hardware = f"{nodes} nodes of {per_node} {chip}, {TRANSFORMER_ENGINE}" if nodes > 1 else f"{gpus} {chip}, {TRANSFORMER_ENGINE}"
    if per_node not in (8, 72) or (nodes > 1 and gpus % per_node):  # racks of 72, of which a run had 64
        hardware = f"{gpus // 64} nodes of 64 {chip}, {TRANSFORMER_ENGINE}" if gpus > 64 else f"{gpus} {chip}, {TRANSFORMER_ENGINE}"
    replicas = gpus // (tp * pp * cp)
    program = _llama(_BRIDGE[model], seq, gbs, sums="bfloat16")  # `grad_reduce_in_fp32 = False` in scripts/performance/configs/llama
    if pp == tp == cp == 1:
        return _accumulated(program, gpus, gbs // (replicas * mbs), hardware, "zero_3" if fsdp > 1 else "zero_1")
    return megatron_plan(program, tp, pp, replicas, gbs // (replicas * mbs), hardware, chunks=vp, context=cp)


@cache
def _llama(preset: str, seq: int, batch: int, float8: str = "tensorwise", sums: str | None = None) -> Program:
    """In Megatron's mixed precision: weights in bfloat16, moments in float32; gradients are added up in `sums`."""
    program = wb.models.build("decoder", preset=preset, seq=seq, batch=batch, recompute="kernels", params="bfloat16", float8=float8)
    return program.variant(precision=wb.Precision(moments="float32", sums=sums))


def megatron_plan(
    program: Program, tensor: int, stages: int, replicas: int, micro_batches: int, hardware: str, *, chunks: int = 1, context: int = 1
) -> wb.Plan:
    """Tensor, sequence, pipeline and data parallelism with a distributed optimizer, as Megatron-LM trains."""
    schedule = f"interleaved chunks:{chunks}" if chunks > 1 else "1f1b"
    mesh = " ".join(
        f"{axis}:{size}"
        for axis, size in (("data", replicas), ("context", context), ("stage", stages), ("model", tensor))
        if size > 1 or axis not in ("context", "model")
    )
    pipeline = f"stages:{stages} micro_batches:{micro_batches} schedule:{schedule} remat:never"
    plan = wb.Plan(program, mesh, "seq:context" if context > 1 else "", hardware=hardware, pipeline=pipeline)
    return _with_recipes(plan, "data_parallel", *(("megatron", "sequence_parallel") if tensor > 1 else ()), "zero_1")


def _single_runs() -> Iterator[ClusterRow]:
    """The runs of `cluster_runs.toml`."""
    for name, run in tomllib.loads((PUBLISHED / "cluster_runs.toml").read_text(encoding="utf-8")).items():
        yield from _FAMILIES[run["family"]](name, run)


def _megatron_runs(name: str, run: Mapping[str, Any]) -> Iterator[ClusterRow]:
    yield ClusterRow("Megatron 2022 A100", "training", name, partial(_gpt_plan, run), run["seconds"])


def _gpt_plan(run: Mapping[str, Any]) -> wb.Plan:
    """A GPT with full recomputation in float16, as Megatron and DeepSpeed trained them until 2022."""
    model, layout = dict(run["model"]), run["layout"]
    heads, d_model = model.pop("heads"), model["d_model"]
    batch = layout.get("batch", layout["replicas"] * layout["micro_batches"])
    program = wb.models.build(
        "decoder",
        preset="megatron-175b",
        kv_heads=heads,
        q_per_kv=1,
        d_head=d_model // heads,
        d_ff=4 * d_model,
        dropout=0.0,
        recompute="replay",
        seq=2048,
        batch=batch,
        **model,
    ).variant(precision=wb.Precision.parse("moments=float32"))
    hardware = f"{run['hardware']}, {MEGATRON}"
    stages = f"stages:{layout['stages']} micro_batches:{layout['micro_batches']} schedule:1f1b remat:never"
    mesh = f"data:{layout['replicas']} stage:{layout['stages']} model:{layout['tensor']}"
    plan = wb.Plan(program, mesh, "", hardware=hardware, pipeline=stages)
    return _with_recipes(plan, "data_parallel", "megatron", "zero_1")


def _llama405_runs(name: str, run: Mapping[str, Any]) -> Iterator[ClusterRow]:
    yield ClusterRow("Megatron Core H100", "training", name, partial(_llama405_plan, run), run["seconds"])


def _llama405_plan(run: Mapping[str, Any]) -> wb.Plan:
    layout = run["layout"]
    batch = layout["replicas"] * layout["micro_batches"]
    program = _llama("llama3-405b", 8192, batch, "")
    pipeline = f"stages:16 micro_batches:{layout['micro_batches']} schedule:interleaved chunks:{layout['chunks']} remat:never"
    mesh = f"data:{layout['replicas']} stage:16 model:{layout['tensor']}"
    plan = wb.Plan(program, mesh, "", hardware=f"{run['hardware']}, {TRANSFORMER_ENGINE}", pipeline=pipeline)
    return _with_recipes(plan, "data_parallel", "megatron", "sequence_parallel", "zero_2")


def _deepseek_runs(name: str, run: Mapping[str, Any]) -> Iterator[ClusterRow]:
    yield ClusterRow("DeepSeek H800", "mixture", name, partial(_deepseek_plan, run), run["seconds"])


def _deepseek_plan(run: Mapping[str, Any]) -> wb.Plan:
    layout = run["layout"]
    program = wb.models.build(
        "mixture",
        preset="deepseek-v3",
        seq=4096,
        batch=15360,
        params="bfloat16",
        fused="attention norm activation rotary loss permute sort",
        recompute="latent",
    )
    pipeline = f"stages:16 micro_batches:{layout['micro_batches']} schedule:dualpipe_v chunks:2 remat:never"
    hardware = f"{run['hardware']}, {TRANSFORMER_ENGINE}, batch overlap"
    layout = expert_parallel(batch="data+expert")
    return wb.Plan(program, "stage:16 data:2 expert:64", layout, hardware=hardware, pipeline=pipeline).recipe("zero_1")


def _decoding_runs(name: str, run: Mapping[str, Any]) -> Iterator[ClusterRow]:
    """One token of every sequence. The framework's own kernels are called one by one, an inference server's are recorded."""
    batches = run.get("batch", [run["model"].get("batch", 1)] * len(run["tensor"]))
    runtime = FRAMEWORK if name.startswith("34B") else INFERENCE
    for tensor, batch, milliseconds in zip(run["tensor"], batches, run["milliseconds"], strict=True):
        model = {**run["model"], "batch": batch}
        build = partial(_decoding_plan, model, tensor, f"{tensor} {run['hardware']}, {runtime}")
        yield ClusterRow(f"decoding {run['hardware']}", "decoding", f"{name}, {tensor} GPUs, batch {batch}", build, milliseconds / 1e3)


def _decoding_plan(model: Mapping[str, Any], tensor: int, hardware: str) -> wb.Plan:
    program = wb.models.build("decoder_decode", **model)
    return wb.Plan(program, f"model:{tensor}", "kv_heads:model; d_ff:model; vocab:model" if tensor > 1 else "", hardware=hardware)


def _finetuning_runs(name: str, run: Mapping[str, Any]) -> Iterator[ClusterRow]:
    yield ClusterRow("DeepSpeed", "memory", name, partial(_finetuning_plan, run), ran=run["ran"])


def _finetuning_plan(run: Mapping[str, Any]) -> wb.Plan:
    """All weights trained in bfloat16 with float32 copies; layers are recomputed, as LLaMA-Factory does by default. Its Transformers had no
    kernel of attention until 4.36."""
    replicas = run["layout"]["replicas"]
    program = wb.models.build(
        "decoder", **run["model"], seq=1536, batch=replicas, recompute="replay", params="bfloat16", fused="norm nonlinearity"
    ).variant(precision=wb.Precision.parse("moments=float32"))
    plan = wb.Plan(program, f"data:{replicas}", "", hardware=f"{run['hardware']}, {DEEPSPEED}")
    return _with_recipes(plan, "data_parallel", f"zero_{run['layout']['zero']}")


_FAMILIES: Mapping[str, Callable[[str, Mapping[str, Any]], Iterator[ClusterRow]]] = {
    "megatron": _megatron_runs,
    "llama405": _llama405_runs,
    "deepseek": _deepseek_runs,
    "decoding": _decoding_runs,
    "finetuning": _finetuning_runs,
}
