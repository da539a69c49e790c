"""Forty plans whose texts, documents and pages are kept in `tests/golden/plans`: each model, recipe, kind of hardware and way to train."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.core.offload import Offload
from workbench.core.precision import Precision
from workbench.core.program import Program
from workbench.core.remat import Remat
from workbench.models.registry import build
from workbench.plan.edits import SetOffload, SetPrecision, SetRemat
from workbench.public_plan import Plan


@dataclass(frozen=True, slots=True)
class FrozenPlan:
    """A plan by its texts, as a plan document has them; `recipes` are applied in order, after the layout."""

    name: str
    model: str
    mesh: str
    layout: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    hardware: str | None = None
    axis_assignment: str | None = None
    pipeline: str | None = None
    remat: str = ""
    precision: str = ""
    offload: str = ""
    recipes: tuple[str, ...] = ()

    def plan(self) -> Plan:
        """The plan. The program is traced once per process."""
        plan = Plan(self._program(), self.mesh, self.layout, self.name, self.hardware, self.axis_assignment, self.pipeline)
        for recipe in self.recipes:
            plan = plan.recipe(*recipe.split())
        for text, edit, parse in (
            (self.remat, SetRemat, Remat.parse),
            (self.precision, SetPrecision, Precision.parse),
            (self.offload, SetOffload, Offload.parse),
        ):
            plan = plan.apply(edit(parse(text))) if text else plan
        return plan

    def _program(self) -> Program:
        return build(self.model, **self.arguments)


_GPT = {"layers": 2}
_DEEP = {"layers": 4}

ALL_FROZEN = (
    FrozenPlan("replicated", "two_layer", "data:8"),
    FrozenPlan("two_layer", "two_layer", "data:4 model:2", "batch:data; hidden:model", {"batch": 16, "io": 64, "hidden": 30}, "8 H100"),
    FrozenPlan("product", "einsum", "x:2 y:2 z:2", "I:x; J:y; K:z", hardware="TPU v5e 2x4"),
    FrozenPlan("classifier", "mnist", "data:2 rows:2 model:2", "batch:data; rows:rows; hidden:model", hardware="8 V100-32GB"),
    FrozenPlan("decoder_fsdp", "decoder", "data:8", "batch:data; d_model:data; norm/scale=[-]", {"layers": 2}, "TPU v5p 2x2x2"),
    FrozenPlan("decoder_megatron", "decoder", "data:2 model:4", "batch:data; d_ff:model; kv_heads:model", {"layers": 2}, "8 H200"),
    FrozenPlan("mixture", "mixture", "expert:4 model:2", recipes=("expert_parallel",), hardware="2 nodes of 4 H100"),
    FrozenPlan("mixture_top2", "mixture", "data:2 expert:4", "batch:data+expert; experts:expert", {"preset": "tiny-top2"}, "TPU v4 2x2x2"),
    FrozenPlan("t5", "t5", "data:2 model:4", "batch:data; d_ff:model; heads:model; vocab:model", hardware="8 A100-80GB"),
    FrozenPlan("conformer", "conformer", "data:2 context:4", "batch:data; seq:context", {"layers": 1}, "TPU v3 2x2"),
    FrozenPlan("volume", "unet", "data:2 rows:2 cols:2", "batch:data; depth:rows; height:cols", hardware="8 A100-40GB"),
    FrozenPlan("volume_recipe", "unet", "data:2 space:4", recipes=("data_parallel", "spatial"), hardware="TPU v6e 2x4"),
    FrozenPlan("amoebanet", "amoebanet", "data:4 model:2", "batch:data; narrow_channels:model", hardware="8 P100"),
    FrozenPlan("pictures", "deep_unet", "data:4 height:2", "batch:data; height:height", hardware="8 P40"),
    FrozenPlan("prefill", "decoder_prefill", "data:2 model:4", "batch:data; kv_heads:model; d_ff:model; vocab:model", hardware="8 L4"),
    FrozenPlan("decode", "decoder_decode", "data:2 context:4", "batch:data; context:context", hardware="TPU v5e 2x4"),
    FrozenPlan("expert_prefill", "mixture_prefill", "expert:8", "batch:expert; experts:expert", hardware="8 B200"),
    FrozenPlan("expert_decode", "mixture_decode", "data:2 expert:4", "batch:data+expert; experts:expert", hardware="8 H800"),
    FrozenPlan("gpt_data_parallel", "gpt", "data:8", "batch:data", _GPT, "8 T4"),
    FrozenPlan("gpt_replicated_axis", "gpt", "data:4 model:2", "batch:data", _GPT, "8 CPU"),
    FrozenPlan("gpt_megatron", "gpt", "data:4 model:2", arguments=_GPT, recipes=("data_parallel", "megatron"), hardware="8 H100, eager"),
    FrozenPlan(
        "gpt_sequence_parallel",
        "gpt",
        "data:2 model:4",
        arguments=_GPT,
        recipes=("data_parallel", "megatron", "sequence_parallel"),
        hardware="TPU v5e 2x4",
        axis_assignment="data:x; model:y",
    ),
    FrozenPlan("gpt_zero_1", "gpt", "data:8", arguments=_GPT, recipes=("data_parallel", "zero_1"), hardware="8 H100"),
    FrozenPlan("gpt_zero_2", "gpt", "data:8", arguments=_GPT, recipes=("data_parallel", "zero_2"), hardware="8 H100, CUDA graphs"),
    FrozenPlan("gpt_zero_3", "gpt", "data:4 model:2", arguments=_GPT, recipes=("data_parallel", "megatron", "zero_3"), hardware="8 A800"),
    FrozenPlan("gpt_two_dimensional", "gpt", "data:4 model:2", arguments=_GPT, recipes=("two_dimensional",), hardware="TPU v7 2x2x1"),
    FrozenPlan(
        "gpt_context", "gpt", "data:2 context:4", arguments=_GPT, recipes=("data_parallel", "context_parallel"), hardware="8 H100-500W"
    ),
    FrozenPlan(
        "gpt_many", "gpt", "data:32 model:8", "batch:data; d_ff:model; heads:model", {"layers": 2, "batch": 64}, "32 nodes of 8 H100 EFA"
    ),
    FrozenPlan("gpt_slices", "gpt", "data:4 model:8", "batch:data; d_ff:model; heads:model", _GPT, "2 slices of TPU v5e 4x4"),
    FrozenPlan("gpt_slow_link", "gpt", "data:2 model:4", "batch:model; d_ff:data", _GPT, "2 nodes of 4 H100, node=200 Gb/s"),
    FrozenPlan("gpt_too_few", "gpt", "data:8", "batch:data", _GPT, "4 H100"),
    FrozenPlan(
        "gpt_overrides",
        "gpt",
        "data:4 model:2",
        "batch:data; d_ff:model p1; params/embedding/tokens=[-, model]; @mlp/up/dot_general=[data, ?, model]; @embedding/add=[data, ?, ?]",
        _GPT,
        "8 H100",
    ),
    FrozenPlan(
        "gpt_propagation",
        "gpt",
        "data:4 model:2",
        "batch:data; heads:model p2; group[params/layers/attention/wq, params/layers/attention/wk]; "
        "barrier[@mlp/up/dot_general] allows:forward",
        _GPT,
        "8 H100",
    ),
    FrozenPlan("gpt_remat", "gpt", "data:8", "batch:data", _GPT, "TPU v2 2x2", remat="full"),
    FrozenPlan("gpt_bfloat16", "gpt", "data:4 model:2", "batch:data; d_ff:model", _GPT, "8 H100", remat="dots", precision="bfloat16"),
    FrozenPlan("gpt_offload", "gpt", "data:8", "batch:data; d_model:data", _GPT, "TPU v5p 2x2x2", offload="optimizer_state"),
    FrozenPlan("gpt_1f1b", "gpt", "stage:2 data:2", "batch:data", _DEEP, "TPU v5e 2x2", pipeline="stages:2 micro_batches:4"),
    FrozenPlan(
        "gpt_interleaved",
        "gpt",
        "stage:2 data:2 model:2",
        "batch:data; d_ff:model; heads:model",
        _DEEP,
        "8 H100",
        pipeline="stages:2 micro_batches:4 schedule:interleaved chunks:2 remat:never",
    ),
    FrozenPlan("gpt_zb_v", "gpt", "stage:2 data:1", "", _DEEP, pipeline="stages:2 micro_batches:4 schedule:zb_v chunks:2"),
    FrozenPlan(
        "gpt_one_program",
        "gpt",
        "stage:2 data:4",
        "batch:data",
        _DEEP,
        "8 V100-16GB",
        pipeline="stages:2 micro_batches:2 schedule:gpipe engine:spmd",
    ),
)
"""Small enough that a plan takes about a second: two or four layers, and the presets that models have for tests."""
