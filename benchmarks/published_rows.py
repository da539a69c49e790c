"""The published measurements, each as the run it is of."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from workbench.core.pipeline_spec import PipelineSpec
from workbench.models.decoder.decoder_config import PRESETS, DecoderConfig
from workbench.models.mixture.mixture_config import PRESETS as MIXTURES
from workbench.models.mixture.mixture_config import MixtureConfig

DATA = Path(__file__).parents[1] / "tests" / "published" / "step_times.json"
GIB = 2**30


@dataclass(frozen=True)
class Row:
    """One published measurement and the run it is of.

    `seconds`, `memory` (bytes) are published, `None` if not. `config.batch` is a micro-batch; `tensor`, `context`, `pipe`, `replicas` are
    devices for each kind of parallelism; `shares_state`: the optimizer's state is split over the replicas (Megatron-LM's distributed
    optimizer); `dummies`: Transformer Engine's stand-ins for weight gradients are held; `waits`: no collective is overlapped.
    """

    table: str
    name: str
    hardware: str
    config: DecoderConfig | MixtureConfig
    seconds: float | None = None
    memory: float | None = None
    tensor: int = 1
    context: int = 1
    pipe: int = 1
    replicas: int = 1
    spec: PipelineSpec = field(default_factory=lambda: PipelineSpec(1, 1))
    splits_sequence: bool = False
    shares_state: bool = False
    dummies: bool = False
    waits: bool = False
    accumulate: str = "float32"

    @property
    def devices(self) -> int:
        return self.tensor * self.context * self.pipe * self.replicas


def _spec(stages: int, micro_batches: int, chunks: int = 1) -> PipelineSpec:
    """As Megatron-LM pipelines; what is recomputed is in the traced micro-batch."""
    return PipelineSpec(stages, micro_batches, "1f1b" if chunks == 1 else "interleaved", chunks, remat="never")


@cache
def _data() -> dict[str, Any]:
    return json.loads(DATA.read_text())  # type: ignore[no-any-return]


def megatron_rows() -> Iterable[Row]:
    """Table 5 of Korthikanti et al. 2022 on A100: full recomputation without, and selective with sequence parallelism."""
    table = _data()["megatron_seqsel_table5_step_time_s"]
    for model, mode, seconds, source in table["rows"]:
        run = table["configs"][source]
        preset = "megatron-" + model.rpartition("-")[2].lower()
        pipe, micro = run["pipeline_par"], run["microbatch_size"]
        yield Row(
            "megatron",
            f"{model} {mode}",
            "A100",
            replace(PRESETS[preset], batch=micro, recompute="replay" if mode == "full" else "attention"),
            seconds,
            tensor=run["tensor_par"],
            pipe=pipe,
            spec=_spec(pipe, run["batch_size"] // run["data_par"] // micro, run["pipeline_interleaving"]),
            splits_sequence=mode != "full",
            accumulate="float16",
        )


def sc21_rows() -> Iterable[Row]:
    """Table 1 of Narayanan et al. 2021 (arXiv:2104.04473) on A100; full recomputation. What is published is the rate by its formula."""
    table = _data()["megatron_a100_sc21_table1"]
    for name, heads, hidden, layers, tensor, pipe, micro, batch, devices, chunk, rate in table["rows"]:
        replicas = devices // (tensor * pipe)
        flops = 96 * batch * 2048 * layers * hidden**2 * (1 + 2048 / (6 * hidden) + 51200 / (16 * layers * hidden))
        config = replace(
            PRESETS["megatron-22b"], layers=layers, d_model=hidden, kv_heads=heads, d_head=hidden // heads, d_ff=4 * hidden, batch=micro
        )
        yield Row(
            "sc21",
            name,
            "A100",
            replace(config, recompute="replay"),
            flops / (rate * 1e12 * devices),
            tensor=tensor,
            pipe=pipe,
            replicas=replicas,
            spec=_spec(pipe, batch // replicas // micro, layers // pipe // chunk if chunk else 1),
            accumulate="float16",
        )


_B200_PART = re.compile(r"(l|tp|cp|ep|pp|dp|seq|mbc)(\d+)")


def b200_rows() -> Iterable[Row]:
    """SimuMax's runs of Megatron-LM on eight B200 (docs/b200 of the source)."""
    for name, milliseconds, _, gib, _ in _data()["simumax_b200_real"]["rows"]:
        yield b200_row(name, milliseconds, gib)


def b200_row(name: str, milliseconds: float, gib: float) -> Row:
    """A run by its name there: micro-batches of one sequence of 4,096 tokens unless the name says otherwise (`mbc` of them), distributed
    optimizer, gradients in float32, the loss one kernel (`cef`), nothing overlapped."""
    size = {found[1]: int(found[2]) for found in map(_B200_PART.fullmatch, name.split("_")) if found}
    return Row(
        "b200",
        name,
        "B200",
        _b200_config(name, size["l"], size.get("seq", 4096)),
        milliseconds / 1e3,
        gib * GIB,
        tensor=size.get("tp", 1),
        context=size.get("cp", 1),
        pipe=size["pp"],
        replicas=size["dp"],
        spec=_spec(size["pp"], size["mbc"]),
        splits_sequence=True,
        shares_state=True,
        dummies=True,
        waits=True,
    )


def _b200_config(name: str, layers: int, seq: int) -> DecoderConfig | MixtureConfig:
    """The model by its published name, cut to so many layers. DeepSeek-V3 has one dense layer there, as V2, and scores by a softmax; the
    devices an expert lies on are the replicas."""
    if name.startswith("deepseek"):
        preset = name.partition("_")[0].replace("deepseek", "deepseek-")
        return replace(MIXTURES[preset], layers=layers, dense=1, seq=seq, batch=1)
    size = name.split("_")[1]
    config = replace(PRESETS[f"llama3-{size}"], layers=layers, seq=seq, batch=1)
    return replace(config, kv_heads=16, q_per_kv=8) if size == "405b" else config


def maxtext_rows() -> Iterable[Row]:
    """MaxText's own sizes on slices of 256 v5e (its README): parameters split within a slice, a replica a slice. What is published is the
    rate by its formula, where attention is not halved for its mask."""
    for billions, slices, _chips, rate, _ in _data()["maxtext_v5e"]["rows"]:
        config = PRESETS[f"maxtext-{billions}b"]
        tokens = config.batch * config.seq // 256  # of one chip
        heads = config.kv_heads * config.d_head
        per_layer = 2 * (3 * config.d_model * config.d_ff + 4 * config.d_model * heads) + 4 * config.seq * heads
        flops = 3 * tokens * (config.layers * per_layer + 2 * config.d_model * config.vocab)
        yield Row(
            "maxtext", f"{billions}B x {slices}", "v5e", config, flops / (rate * 1e12), replicas=slices, tensor=16 if billions == 128 else 1
        )


TABLES = {"megatron": megatron_rows, "sc21": sc21_rows, "b200": b200_rows, "maxtext": maxtext_rows}
