"""What `benchmarks/gpu.py` runs on a GPU and predicts: shapes of single kernels, layers of a Llama in PyTorch, programs of the zoo in XLA.

Neither JAX nor PyTorch is imported here: each side of the comparison has one of them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Product(NamedTuple):
    """A product of bfloat16, rows x columns, each a sum of so many; `direction` is the layout in memory that PyTorch's `linear` gives it:
    `forward` x W^T, `inputs` dy W, `weights` dy^T x."""

    direction: str
    rows: int
    columns: int
    summed: int


def _linear(tokens: int, inputs: int, outputs: int) -> tuple[Product, ...]:
    return (
        Product("forward", tokens, outputs, inputs),
        Product("inputs", tokens, inputs, outputs),
        Product("weights", outputs, inputs, tokens),
    )


_LINEARS = ((1024, 5632), (2048, 11264), (4096, 12288), (4096, 4096), (4096, 22016), (11008, 4096), (8192, 44032))
"""Inputs and outputs: gate and value together, of models of 1024, 2048, 4096 and 8192; of 4096 also the joint projection of an attention,
its output, and the way down."""
PRODUCTS = tuple(each for tokens in (1024, 4096, 16384) for linear in _LINEARS for each in _linear(tokens, *linear)) + tuple(
    Product("forward", side, side, side) for side in (512, 1024, 2048, 4096, 8192, 16384)
)


class AttentionShape(NamedTuple):
    """Causal attention of bfloat16: sequences, heads, tokens of a sequence, width of a head."""

    batch: int
    heads: int
    seq: int
    d_head: int


ATTENTIONS = (
    tuple(
        AttentionShape(max(16384 // seq, 1), 2048 // d_head, seq, d_head)
        for d_head in (64, 128)
        for seq in (512, 1024, 2048, 4096, 8192, 16384)
    )
    + tuple(AttentionShape(1, heads, seq, 128) for heads in (4, 8, 16, 32, 64) for seq in (1024, 2048, 4096, 8192))
    + (AttentionShape(1, 16, 1024, 64),)
)
"""As many tokens each, as FlashAttention's papers measure it, and one sequence of few heads, whose blocks are few."""
BURSTS = (2048, 4096, 8192)
"""Sides of products that are timed alone, on a device that rests between them: its clock is not lowered for their power."""

DTYPES = ("bfloat16", "tf32", "float32", "float8_e4m3fn")
"""Of products of 8,192 x 8,192 x 8,192."""

MEGABYTES = (4, 16, 64, 256, 1024)
"""Sizes of an array that a kernel passes over."""


class Layers(NamedTuple):
    """A Llama of few layers, trained with AdamW, all in bfloat16, over a vocabulary of 32,000."""

    d_model: int
    d_ff: int
    kv_heads: int
    q_per_kv: int
    seq: int
    batch: int
    layers: int

    @property
    def d_head(self) -> int:
        return self.d_model // (self.kv_heads * self.q_per_kv)

    def __str__(self) -> str:
        heads = f"{self.kv_heads}x{self.q_per_kv}" if self.q_per_kv > 1 else f"{self.kv_heads}"
        return f"h{self.d_model} ff{self.d_ff} heads {heads} of {self.d_head}, {self.batch} x {self.seq} tokens, {self.layers} layers"


VOCAB = 32000
LAYERS = (
    Layers(1024, 2816, 16, 1, 1024, 1, 8),
    Layers(1024, 2816, 16, 1, 4096, 4, 8),
    Layers(2048, 5632, 16, 1, 1024, 1, 8),
    Layers(2048, 5632, 32, 1, 4096, 2, 8),
    Layers(2048, 5632, 16, 1, 8192, 1, 8),
    Layers(4096, 11008, 32, 1, 1024, 1, 4),
    Layers(4096, 11008, 32, 1, 4096, 1, 4),
    Layers(4096, 11008, 32, 1, 4096, 4, 4),
    Layers(4096, 11008, 32, 1, 8192, 1, 4),
    Layers(8192, 22016, 64, 1, 2048, 1, 2),
    Layers(8192, 22016, 64, 1, 4096, 2, 2),
    Layers(8192, 28672, 8, 8, 4096, 1, 2),
)
TINY_LAYERS = tuple(Layers(256, 704, 4, 1, 64, 1, layers) for layers in (4, 8, 16))
"""So small that only the host counts: what a layer more takes is its calls."""
SMALL = Layers(64, 128, 4, 1, 64, 2, 2)
"""For a try without a GPU."""
WAYS = {
    "eager": "eager, AdamW fused",
    "foreach": "eager, AdamW of one kernel an operation and list of tensors",
    "graph": "the eager step recorded as a CUDA graph",
    "compile": "torch.compile",
}
"""How the layers are run."""
RUNTIMES = {"eager": "1 H100, eager", "foreach": "1 H100, eager", "graph": "1 H100, CUDA graphs", "compile": "1 H100"}
"""What predicts each."""
ALL_WAYS = frozenset({0, 2, 3, 6, 10})
"""Places in `LAYERS` of those that are run in all ways; the others eagerly."""


class ZooCase(NamedTuple):
    """A program of the zoo and what is changed of a preset; `is_cudnn`: its attention is cuDNN's kernel, as the plan says with
    `fused="attention"`."""

    model: str
    arguments: Mapping[str, Any]
    is_cudnn: bool = False

    def __str__(self) -> str:
        words = [str(value) if name == "preset" else f"{name}={value}" for name, value in self.arguments.items()]
        return " ".join((self.model, *words, *(["cuDNN"] if self.is_cudnn else [])))


_BFLOAT16 = {"compute": "bfloat16"}
_LLAMA = {
    "preset": "llama2-7b",
    "layers": 2,
    "vocab": VOCAB,
    "seq": 2048,
    "batch": 2,
    "fused": "",
    "recompute": "none",
}
ZOO = (
    ZooCase("gpt", {"preset": "gpt2-small", **_BFLOAT16}),
    ZooCase("gpt", {"preset": "gpt3-1.3b", "batch": 2}),
    ZooCase("decoder", _LLAMA),
    ZooCase("decoder", {**_LLAMA, "seq": 4096, "fused": "attention"}, is_cudnn=True),
    ZooCase(
        "decoder",
        {
            **_LLAMA,
            "layers": 16,
            "d_model": 2048,
            "d_ff": 8192,
            "kv_heads": 32,
            "d_head": 64,
            "seq": 4096,
            "fused": "attention",
            "params": "float32",
        },
        is_cudnn=True,
    ),
    ZooCase(
        "mixture",
        {
            "preset": "tiny",
            "vocab": VOCAB,
            "layers": 4,
            "d_model": 1024,
            "heads": 16,
            "q_rank": 512,
            "kv_rank": 256,
            "d_head": 64,
            "d_rotary": 32,
            "d_value": 64,
            "d_ff": 4096,
            "experts": 16,
            "d_expert": 1024,
            "d_shared": 1024,
            "seq": 1024,
            "batch": 8,
            "lookup": "gather",
            **_BFLOAT16,
        },
    ),
    ZooCase("t5", {"preset": "t5-base", "batch": 32, **_BFLOAT16}),
    ZooCase("gpt", {"preset": "gpt3-medium", "batch": 4}),
    ZooCase("gpt", {"preset": "gpt3-1.3b", "batch": 4}),
    ZooCase("gpt", {"preset": "gpt2-small"}),
)
KERNEL_ZOO = tuple(ZOO[place] for place in (0, 2, 3, 5, 6))
"""Those whose kernels are looked at one by one."""
SMALL_ZOO = (ZooCase("gpt", {"preset": "tiny"}), ZooCase("mixture", {"preset": "tiny"}))
