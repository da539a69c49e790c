"""Sizes and choices of a mixture-of-experts Transformer, with published models as presets."""

from dataclasses import dataclass
from math import ceil
from typing import Any

from workbench.models.config_fields import (
    FLOATS,
    NumberFrom0,
    WholeFrom0,
    one_of,
    optimizer_named,
    several_of,
    verify_halves,
    verify_pattern,
    verify_relation,
    verify_words,
)
from workbench.models.size_limits import verify_divides


@dataclass(frozen=True, slots=True)
class MixtureArchitecture:
    """Architecture of a decoder-only Transformer with experts, for training and inference.

    The first `dense` layers are dense; each token chooses `top_k` of `experts` in the others. Field names of sizes are
    dimension names.

    - `attention`: `latent` (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1): queries come from a latent of width
      `q_rank`, keys and values from a latent of width `kv_rank` shared by all heads; a query and a key of a head have
      `d_head` features, plus `d_rotary` for the position, which the keys of all heads share; a value has `d_value`. Or
      `heads`: keys and values of `d_head`, each with `q_per_kv` query heads (Ainslie et al. 2023, grouped-query
      attention);
    - `d_ff`: width of a dense layer; `d_expert`: of an expert; `d_shared`: of the shared expert (0 for none);
    - `alternate`: every other layer is dense (GShard, Lepikhin et al. 2020), the first of each two;
    - `capacity_factor`: a sequence gives each expert at most `capacity` tokens, its share of all choices times this
      factor; other tokens are dropped, and unused slots are padded with zeros; `dispatch`: `gather`, where an expert
      drops the tokens with the least router weight, or `product` with a mask, where it drops the last ones (GShard,
      algorithm 1);
    - `groups`: number of groups of experts; a token chooses within its `top_groups` best groups unless that is 0
      (device-limited routing, section 2.2.2); `score`: a router's `softmax` or `sigmoid` (DeepSeek-V3,
      arXiv:2412.19437); `scale`: factor on the weights of the chosen experts;
    - `fused`: scopes that one hand-written kernel computes on the target (see `tracing.fused_kernel`), of `attention
      norm activation rotary loss permute sort`;
    - `compute`: dtype of the products;
    - `window`, `pattern`, `chunked`: local attention, as in `decoder.config`, for `heads` in layers that all have experts.
    """

    vocab: int
    layers: int
    dense: WholeFrom0
    d_model: int
    heads: int
    q_rank: WholeFrom0
    kv_rank: WholeFrom0
    d_head: int
    d_rotary: WholeFrom0
    d_value: int
    d_ff: int
    experts: int
    top_k: int
    d_expert: int
    d_shared: WholeFrom0
    seq: int
    batch: int
    attention: str = one_of("latent", "heads")
    q_per_kv: int = 1
    dispatch: str = one_of("gather", "product")
    alternate: bool = False
    capacity_factor: float = 1.0
    groups: int = 1
    top_groups: WholeFrom0 = 0
    score: str = one_of("softmax", "sigmoid")
    scale: float = 1.0
    gate_up: int = 2
    expert_gates: int = 2
    fused: str = several_of("attention", "norm", "activation", "rotary", "loss", "permute", "sort")
    norm: str = one_of("rms", "layer")
    positions: str = one_of("rotary")
    tied: bool = False
    lookup: str = one_of("gather", "product")
    compute: str = one_of("bfloat16", *FLOATS)
    window: WholeFrom0 = 0
    pattern: str = ""
    chunked: bool = False

    def __post_init__(self) -> None:
        verify_words(self)
        _verify_layers(self)
        _verify_attention(self)
        _verify_experts(self)

    @property
    def qkv(self) -> int:
        return self.q_per_kv + 2

    @property
    def d_query(self) -> int:
        return self.d_head + self.d_rotary

    @property
    def d_pair(self) -> int:
        """Width of a head's key, without its position, and value."""
        return self.d_head + self.d_value

    @property
    def d_latent(self) -> int:
        """Cached width per token for all heads: the latent of keys and values, and the key position."""
        return self.kv_rank + self.d_rotary

    @property
    def choices(self) -> int:
        """Experts in the routing; a router is not sharded like the experts."""
        return self.experts

    @property
    def sparse(self) -> int:
        return (self.layers - self.dense) // (2 if self.alternate else 1)

    @property
    def capacity(self) -> int:
        """Maximum tokens of a sequence per expert.

        >>> PRESETS["deepseek-v2"].capacity, PRESETS["deepseek-v3"].capacity
        (154, 128)
        """
        return ceil(self.seq * self.top_k / self.experts * self.capacity_factor)

    @property
    def parameters(self) -> int:
        """Number of parameters, from the sizes alone.

        >>> round(PRESETS["deepseek-v2"].parameters / 1e9, 1), round(PRESETS["deepseek-v3"].parameters / 1e9, 1)
        (235.7, 671.0)
        """
        experts = self.experts * ((self.expert_gates + 1) * self.d_expert + 1) + (self.gate_up + 1) * self.d_shared
        return self._outside + self.sparse * self.d_model * experts

    @property
    def active(self) -> int:
        """Number of parameters used per token.

        >>> [round(PRESETS[name].active / 1e9, 1) for name in ("deepseek-v2", "deepseek-v3", "glam-64b-64e", "mixtral-8x7b")]
        [21.4, 37.6, 96.6, 12.9]
        """
        experts = self.top_k * (self.expert_gates + 1) * self.d_expert + self.experts + (self.gate_up + 1) * self.d_shared
        return self._outside + self.sparse * self.d_model * experts

    @property
    def _outside(self) -> int:
        if self.attention == "latent":
            attention = self.d_model * (self.q_rank + self.d_latent + self.heads * self.d_value)
            attention += self.heads * (self.q_rank * self.d_query + self.kv_rank * self.d_pair) + self.q_rank + self.kv_rank
        else:
            attention = self.d_model * self.heads * (self.qkv + self.q_per_kv) * self.d_head
        dense = (self.layers - self.sparse) * self.d_model * (self.gate_up + 1) * self.d_ff
        tables = (1 if self.tied else 2) * self.vocab * self.d_model
        return tables + self.layers * (attention + 2 * self.d_model) + dense + self.d_model


@dataclass(frozen=True, slots=True)
class MixtureConfig(MixtureArchitecture):
    """A Transformer with a mixture of experts and how it is trained.

    - `balance`: how much the loss of an unbalanced load counts (section 2.2.3, of a sequence);
    - `recompute`: `none`, `kernels`, `alternate` or `full`, as in `decoder.config`; `latent` as `kernels`, and what is projected up of
      latents (DeepSeek-AI 2024, arXiv:2412.19437, sections 3.2.3 and 3.3.3);
    - `params`: the type in which parameters are held;
    - `optimizer`: its name (`tracing.named_optimizers`).
    """

    balance: NumberFrom0 = 0.003
    recompute: str = one_of("none", "kernels", "alternate", "attention", "latent", "full", "offload")
    params: str = one_of(*FLOATS)
    optimizer: str = optimizer_named("adamw")
    learning_rate: float = 3e-4


def _verify_layers(config: MixtureArchitecture) -> None:
    verify_relation(
        config.sparse > 0,
        f"`layers` is {config.layers} and `dense` is {config.dense}, so no layer has experts.",
        "take more `layers`",
        "take fewer `dense` ones",
    )
    if config.alternate:
        rest = config.layers - config.dense
        verify_relation(
            rest % 2 == 0,
            f"`layers` less `dense` is {rest}; with `alternate` a dense and a sparse layer go together.",
            "use one more or one less",
        )
    verify_relation(
        config.gate_up in (1, 2) and config.expert_gates in (1, 2),
        f"`gate_up` is {config.gate_up} and `expert_gates` {config.expert_gates}; each is 2 (SwiGLU) or 1 (GELU).",
        "take 1 or 2",
    )


def _verify_attention(config: MixtureArchitecture) -> None:
    verify_pattern(config.pattern)
    verify_relation(
        not config.window or (config.attention == "heads" and config.sparse == config.layers),
        f"`window` is {config.window}; only layers with experts and plain heads have one.",
        "take `window` 0",
        'take `attention` "heads", `dense` 0 and no `alternate`',
    )
    if config.attention == "heads":
        verify_halves("d_head", config.d_head, True, "rotary positions turn one half of a head with the other")
        verify_relation(
            config.d_value == config.d_head,
            f"`d_value` is {config.d_value} and `d_head` {config.d_head}; only latent attention has values of a width of their own.",
            f"take `d_value` {config.d_head}",
            'take `attention` "latent"',
        )
        return
    verify_relation(
        config.q_per_kv == 1,
        f"`q_per_kv` is {config.q_per_kv}; all heads of a latent attention share its latent.",
        "take `q_per_kv` 1",
        'take `attention` "heads"',
    )
    verify_halves("d_rotary", config.d_rotary, True, "rotary positions turn one half of it with the other")
    empty = [name for name in ("q_rank", "kv_rank", "d_rotary") if not getattr(config, name)]
    verify_relation(
        not empty,
        f"`{' and '.join(empty)}` is 0; latent attention needs each of `q_rank`, `kv_rank` and `d_rotary`.",
        'take `attention` "heads"',
    )


def _verify_experts(config: MixtureArchitecture) -> None:
    verify_relation(
        config.top_k <= config.experts,
        f"`top_k` is {config.top_k}; there are {config.experts} `experts`.",
        f"take {config.experts} at most",
    )
    if config.top_groups:
        verify_divides("experts", config.experts, config.groups, f"they form {config.groups} `groups` of equal size")
        verify_relation(
            config.top_groups <= min(config.groups, config.top_k),
            f"`top_groups` is {config.top_groups}; there are {config.groups} `groups`, and `top_k` is {config.top_k}.",
            f"take {min(config.groups, config.top_k)} at most",
        )


def _deepseek(
    *, vocab: int, layers: int, dense: int, d_model: int, d_ff: int, experts: int, top_k: int, d_expert: int, d_shared: int
) -> MixtureConfig:
    """Published sizes of DeepSeek-AI, as Megatron-LM with Transformer Engine trains them."""
    return MixtureConfig(
        vocab=vocab,
        layers=layers,
        dense=dense,
        d_model=d_model,
        heads=128,
        q_rank=1536,
        kv_rank=512,
        d_head=128,
        d_rotary=64,
        d_value=128,
        d_ff=d_ff,
        experts=experts,
        top_k=top_k,
        d_expert=d_expert,
        d_shared=d_shared,
        seq=4096,
        batch=8,
        groups=8,
        top_groups=3,
        scale=16.0,
        fused="attention norm activation rotary loss permute sort",
        recompute="kernels",
        params="bfloat16",
    )


def _plain_heads(**sizes: Any) -> MixtureConfig:
    return MixtureConfig(attention="heads", q_rank=0, kv_rank=0, d_rotary=0, d_shared=0, **sizes)


PRESETS: dict[str, MixtureConfig] = {
    # A dense layer and two with experts, small enough to run on eight virtual devices.
    "tiny": MixtureConfig(
        vocab=256,
        layers=3,
        dense=1,
        d_model=64,
        heads=4,
        q_rank=32,
        kv_rank=16,
        d_head=16,
        d_rotary=8,
        d_value=16,
        d_ff=128,
        experts=8,
        top_k=2,
        d_expert=32,
        d_shared=32,
        seq=64,
        batch=16,
        capacity_factor=1.25,
        lookup="product",
        compute="float32",
        learning_rate=3e-3,
    ),
    # The same with GShard's mixture: two experts per token in every other layer, plain heads.
    "tiny-top2": _plain_heads(
        vocab=256,
        layers=2,
        dense=0,
        d_model=64,
        heads=4,
        d_head=16,
        d_value=16,
        d_ff=128,
        experts=8,
        top_k=2,
        d_expert=64,
        seq=64,
        batch=16,
        dispatch="product",
        alternate=True,
        capacity_factor=1.25,
        expert_gates=1,
        tied=True,
        lookup="product",
        compute="float32",
        learning_rate=3e-3,
    ),
    # Du et al. 2021 (GLaM, arXiv:2112.06905), table 4: 1.2T parameters, 96.6B per token. GSPMD's successor measured it
    # (Wang et al. 2023, table 1). It has relative positions, replaced by rotary ones here.
    "glam-64b-64e": _plain_heads(
        vocab=256000,
        layers=64,
        dense=0,
        d_model=8192,
        heads=128,
        d_head=128,
        d_value=128,
        d_ff=32768,
        experts=64,
        top_k=2,
        d_expert=32768,
        seq=1024,
        batch=1024,
        dispatch="product",
        alternate=True,
        capacity_factor=1.25,
        expert_gates=1,
        tied=True,
        lookup="product",
        recompute="full",
    ),
    # Jiang et al. 2024 (arXiv:2401.04088), table 1: 46.7B parameters, 12.9B per token.
    "mixtral-8x7b": _plain_heads(
        vocab=32000,
        layers=32,
        dense=0,
        d_model=4096,
        heads=8,
        q_per_kv=4,
        d_head=128,
        d_value=128,
        d_ff=14336,
        experts=8,
        top_k=2,
        d_expert=14336,
        seq=4096,
        batch=16,
        fused="attention norm activation rotary loss permute sort",
        recompute="kernels",
        params="bfloat16",
    ),
    # arXiv:2405.04434, section 3.1.2: 236B parameters, two shared experts of 1,536.
    "deepseek-v2": _deepseek(
        vocab=102400, layers=60, dense=1, d_model=5120, d_ff=12288, experts=160, top_k=6, d_expert=1536, d_shared=3072
    ),
    # arXiv:2412.19437, section 4.2: 671B parameters, without the layer that predicts a second token.
    "deepseek-v3": _deepseek(
        vocab=129280, layers=61, dense=3, d_model=7168, d_ff=18432, experts=256, top_k=8, d_expert=2048, d_shared=2048
    ),
}
