"""Sizes and choices of a decoder Transformer, with published models as presets."""

from dataclasses import dataclass, replace

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
from workbench.models.layers.quantized_weights import SCALED_TYPES


@dataclass(frozen=True, slots=True)
class DecoderArchitecture:
    """Architecture of a decoder-only Transformer, for training and inference. Field names of sizes are dimension names.

    - `kv_heads`: key-value heads, each with `q_per_kv` query heads; multi-head attention has `q_per_kv=1` (Ainslie et
      al. 2023, grouped-query attention);
    - `gate_up`: 2 for SwiGLU (Shazeer 2020), 1 for GELU; `positions`: `learned`, `rotary` or `sinusoidal`; `norm`:
      `layer` or `rms`; `tied`: the head shares the embedding table; `lookup`: `product` (one-hot times table) or
      `gather`;
    - `fused`: scopes that one hand-written kernel computes on the target (see `tracing.fused_kernel`), of `attention
      softmax dropout norm activation nonlinearity rotary loss`; `nonlinearity` is the activation without its bias and
      without the product with a gate;
    - `compute`: dtype of the products;
    - `kv_copies`: copies of each head of keys and values, with their part of its queries, so that a tensor-parallel axis may have more
      devices than there are such heads (as vLLM and Megatron Core place them). In training, the copies have one gradient, their sum;
    - `window`, `pattern`, `chunked`: local attention (`models.layers.local_attention`): tokens that a local layer sees, 0 for all; kinds of
      layers, `LLLLLG`; and whether a token sees its own chunk of the sequence instead of the last tokens.
    """

    vocab: int
    layers: int
    d_model: int
    kv_heads: int
    q_per_kv: int
    d_head: int
    d_ff: int
    seq: int
    batch: int
    gate_up: int = 1
    biases: bool = False
    positions: str = one_of("rotary", "learned", "sinusoidal")
    norm: str = one_of("rms", "layer")
    tied: bool = False
    lookup: str = one_of("gather", "product")
    fused: str = several_of("attention", "softmax", "dropout", "norm", "activation", "nonlinearity", "rotary", "loss")
    compute: str = one_of("bfloat16", *FLOATS)
    kv_copies: int = 1
    window: WholeFrom0 = 0
    pattern: str = ""
    chunked: bool = False

    def __post_init__(self) -> None:
        verify_words(self)
        verify_pattern(self.pattern)
        verify_relation(
            self.q_per_kv % self.kv_copies == 0,
            f"`kv_copies` is {self.kv_copies} and `q_per_kv` {self.q_per_kv}; each copy of a head of keys serves as many heads of queries.",
            f"take `kv_copies` {self.q_per_kv}",
        )
        verify_relation(self.gate_up in (1, 2), f"`gate_up` is {self.gate_up}; a layer has 2 (SwiGLU) or 1 (GELU).", "take 1", "take 2")
        verify_halves("d_head", self.d_head, self.positions == "rotary", "rotary positions turn one half of a head with the other")
        verify_halves("d_model", self.d_model, self.positions == "sinusoidal", "half of the positions are sines and half cosines")

    @property
    def qkv(self) -> int:
        return self.q_per_kv + 2

    @property
    def parameters(self) -> int:
        """Number of parameters, from the sizes alone.

        >>> round(PRESETS["llama3-70b"].parameters / 1e9, 1), round(PRESETS["megatron-175b"].parameters / 1e9, 1)
        (70.6, 174.6)
        """
        heads = self.kv_heads * self.q_per_kv * self.d_head
        layer = self.d_model * self.kv_heads * self.qkv * self.d_head + heads * self.d_model + (self.gate_up + 1) * self.d_model * self.d_ff
        norm = self.d_model * (2 if self.norm == "layer" else 1)
        biases = self.kv_heads * self.qkv * self.d_head + self.gate_up * self.d_ff + 2 * self.d_model if self.biases else 0
        tables = (1 if self.tied else 2) * self.vocab * self.d_model + (self.seq * self.d_model if self.positions == "learned" else 0)
        return tables + self.layers * (layer + 2 * norm + biases) + norm


@dataclass(frozen=True, slots=True)
class DecoderConfig(DecoderArchitecture):
    """A decoder-only Transformer and how it is trained.

    - `recompute`: what a layer computes again in its backward pass: `none`; `kernels`, only what a kernel can make of its operands;
      `attention`, the attention's core too (selective recomputation, Korthikanti et al. 2022); `alternate`, all but every other product
      of weights, the first one kept, and what a fused attention computes (torchtitan's selective recomputation of operations); `full`,
      all that is read but the layer's input; `replay`, the whole layer, read or not; `offload`, as `full`, with queries, keys and values
      kept in the host's memory;
    - `ring`: blocks of the sequence among which keys and values go around (`models.layers.ring_attention`; Liu et al. 2023), as many as
      the mesh axis that splits it has devices; 1 for an attention to gathered ones. Sequences are then in zigzag order, whose 2 `ring`
      chunks are alike;
    - `dropout`: of the attention's shares; a `ring` has none;
    - `params`: the type in which parameters are held;
    - `float8`: `tensorwise` or `rowwise`: weight products of layers are computed in eight bits, their operands scaled by their largest
      magnitude and cast each time (`tracing.jaxpr.float8_products`); the head and the attention's core stay in `compute`;
    - `optimizer`: its name (`tracing.named_optimizers`);
    - `lora_rank`: of the adapters of a layer's weights, which alone are trained (`models.layers.low_rank_adapters`); 0 trains all weights;
    - `base`: the type in which the weights below adapters are kept, with a scale for each output channel; empty for that of `params`.
    """

    recompute: str = one_of("none", "kernels", "alternate", "attention", "full", "replay", "offload")
    ring: int = 1
    dropout: NumberFrom0 = 0.0
    params: str = one_of(*FLOATS)
    float8: str = one_of("", "tensorwise", "rowwise")
    optimizer: str = optimizer_named("adamw")
    learning_rate: float = 3e-4
    lora_rank: WholeFrom0 = 0
    base: str = one_of("", *SCALED_TYPES)

    def __post_init__(self) -> None:
        DecoderArchitecture.__post_init__(self)
        ways_out = "take `lora_rank` 16", "leave `base` out"
        verify_relation(not self.base or self.lora_rank > 0, f"`base` is {self.base}; only frozen weights are kept in it.", *ways_out)
        verify_relation(
            self.kv_copies == 1 or not self.lora_rank, f"`kv_copies` is {self.kv_copies}; adapters have no copies.", "take `kv_copies` 1"
        )
        verify_relation(
            self.ring == 1 or not 0 < self.window < self.seq,
            f"`ring` is {self.ring} and `window` {self.window}; a ring passes the keys of the whole sequence around.",
            "take `ring` 1",
            "take `window` 0",
        )
        verify_relation(self.dropout < 1, f"`dropout` is {self.dropout}; it is the share that is dropped, below 1.", "take 0.1")


def _megatron(layers: int, d_model: int, heads: int, batch: int) -> DecoderConfig:
    """Megatron-LM on A100: Korthikanti et al. 2022, table 3, with fused kernels and 51,200 padded tokens."""
    return DecoderConfig(
        vocab=51200,
        layers=layers,
        d_model=d_model,
        kv_heads=heads,
        q_per_kv=1,
        d_head=d_model // heads,
        d_ff=4 * d_model,
        seq=2048,
        batch=batch,
        biases=True,
        positions="learned",
        norm="layer",
        tied=True,
        fused="softmax dropout norm activation",
        recompute="attention",
        dropout=0.1,
        params="float16",
        compute="float16",
    )


def _llama3(layers: int, d_model: int, kv_heads: int, q_per_kv: int, d_ff: int) -> DecoderConfig:
    """Grattafiori et al. 2024 (arXiv:2407.21783, table 3), as Megatron-LM with Transformer Engine trains it. A step has
    16 examples, enough for replicas and micro-batches of a pipeline; the published runs had a thousand and more.
    """
    return DecoderConfig(
        vocab=128256,
        layers=layers,
        d_model=d_model,
        kv_heads=kv_heads,
        q_per_kv=q_per_kv,
        d_head=128,
        d_ff=d_ff,
        seq=4096,
        batch=16,
        gate_up=2,
        fused="attention norm activation rotary loss",
        recompute="kernels",
        params="bfloat16",
    )


def _llama2(layers: int, d_model: int, kv_heads: int, q_per_kv: int, d_ff: int) -> DecoderConfig:
    """Touvron et al. 2023 (arXiv:2307.09288, table 1), with checkpoint widths, trained like Llama 3."""
    return replace(_llama3(layers, d_model, kv_heads, q_per_kv, d_ff), vocab=32000)


def _maxtext(layers: int, d_model: int, heads: int, d_ff: int, batch: int, recompute: str = "full") -> DecoderConfig:
    """MaxText's own sizes for TPU (`global_parameter_scale`: `base.yml` times powers of two)."""
    return DecoderConfig(
        vocab=32000,
        layers=layers,
        d_model=d_model,
        kv_heads=heads,
        q_per_kv=1,
        d_head=128,
        d_ff=d_ff,
        seq=2048,
        batch=batch,
        gate_up=2,
        lookup="product",
        fused="attention",
        recompute=recompute,
    )


def _gpipe(layers: int) -> DecoderConfig:
    """GPipe's Transformer-L (Huang et al. 2019, table 1): 32k vocabulary, 1024 tokens, batch 32."""
    return DecoderConfig(
        vocab=32000,
        layers=layers,
        d_model=2048,
        kv_heads=32,
        q_per_kv=1,
        d_head=64,
        d_ff=8192,
        seq=1024,
        batch=32,
        biases=True,
        positions="sinusoidal",
        norm="layer",
    )


PRESETS: dict[str, DecoderConfig] = {
    # The architecture of Llama, small enough to run on eight virtual devices.
    "tiny": DecoderConfig(
        vocab=256,
        layers=2,
        d_model=64,
        kv_heads=4,
        q_per_kv=2,
        d_head=8,
        d_ff=128,
        seq=64,
        batch=16,
        gate_up=2,
        lookup="product",
        compute="float32",
        learning_rate=3e-3,
    ),
    "megatron-22b": _megatron(48, 6144, 64, batch=4),
    "megatron-175b": _megatron(96, 12288, 96, batch=64),
    "megatron-530b": _megatron(105, 20480, 128, batch=280),
    "megatron-1t": _megatron(128, 25600, 160, batch=512),
    "llama2-7b": _llama2(32, 4096, 32, 1, 11008),
    "llama2-13b": _llama2(40, 5120, 40, 1, 13824),
    "llama2-70b": _llama2(80, 8192, 8, 8, 28672),
    "llama3-8b": _llama3(32, 4096, 8, 4, 14336),
    "llama3-70b": _llama3(80, 8192, 8, 8, 28672),
    "llama3-405b": _llama3(126, 16384, 8, 16, 53248),
    "maxtext-16b": _maxtext(32, 4096, 64, 28672, batch=6 * 256),
    "maxtext-32b": _maxtext(32, 8192, 64, 28672, batch=4 * 256),
    "maxtext-64b": _maxtext(64, 8192, 64, 28672, batch=2 * 256),
    # 282.2M, 785.8M, 5.3B, 21.0B and 83.9B parameters, on 1, 1, 8, 32 and 128 partitions.
    "gpipe-3": _gpipe(3),
    "gpipe-13": _gpipe(13),
    "gpipe-103": _gpipe(103),
    "gpipe-415": _gpipe(415),
    "gpipe-1663": _gpipe(1663),
    "maxtext-128b": _maxtext(64, 8192, 128, 57344, batch=256, recompute="offload"),
}
