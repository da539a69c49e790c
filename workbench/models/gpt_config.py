"""Sizes of the GPT model, with published models as presets."""

from dataclasses import dataclass

from workbench.models.config_fields import FLOATS, optimizer_named, verify_words, word_or_none


@dataclass(frozen=True, slots=True)
class GPTConfig:
    """One decoder-only Transformer and how it is trained. Field names are the names of its dimensions.

    - `biases`: on every projection and normalisation, as GPT-2 has them. The other models here leave them out (as PaLM and GSPMD's
      do): they are 0.01% of the parameters, and half of the tensors.
    - `compute`: the type of activations, to which weights are cast where they are used; `None` is that of the parameters, so that a plan's
      precision decides. Parameters and optimizer state are float32.
    - `optimizer`: its name (`tracing.named_optimizers`).
    """

    vocab: int
    layers: int
    d_model: int
    heads: int
    d_head: int
    d_ff: int
    seq: int
    batch: int
    biases: bool = False
    compute: str | None = word_or_none(*FLOATS)
    optimizer: str = optimizer_named("adamw")
    learning_rate: float = 3e-4

    def __post_init__(self) -> None:
        verify_words(self)

    @property
    def parameters(self) -> int:
        """Number of parameters, from the sizes alone.

        >>> GPTConfig(vocab=50257, layers=12, d_model=768, heads=12, d_head=64, d_ff=3072, seq=1024, batch=8, biases=True).parameters
        124439808
        """
        inner = self.heads * self.d_head
        layer = 4 * self.d_model * inner + 2 * self.d_model * self.d_ff + 2 * self.d_model
        if self.biases:
            layer += 3 * inner + self.d_model + self.d_ff + self.d_model + 2 * self.d_model
        norm = self.d_model * (2 if self.biases else 1)
        return (self.vocab + self.seq) * self.d_model + self.layers * layer + norm


PADDED_VOCAB = 50304
"""GPT-2's 50,257 tokens (29 x 1733, not divisible by any power of two) rounded up to a multiple of 128. It divides
evenly on every axis up to 128, and fills whole lanes on a TPU. Megatron-LM and nanoGPT pad in the same way; the 47
rows without a token only learn to be improbable.
"""


def _dense(layers: int, d_model: int, batch: int, *, heads: int = 0, d_ff: int = 0) -> GPTConfig:
    """A dense model of Wang et al. 2023 (ASPLOS, "Overlap communication with dependent computation via decomposition"),
    tables 1 and 2. The tables give layers, d_model, d_ff and batch. Heads of 128 add up to `d_model` unless `heads`
    is given; sequence and vocabulary, which they do not give, are those of GSPMD's own models.
    """
    return GPTConfig(
        vocab=32000,
        layers=layers,
        d_model=d_model,
        heads=heads or d_model // 128,
        d_head=128,
        d_ff=d_ff or 4 * d_model,
        seq=1024,
        batch=batch,
        compute="bfloat16",
        optimizer="adam",
        learning_rate=1e-4,
    )


def _gpt3(layers: int, d_model: int, heads: int, d_head: int, batch: int, learning_rate: float) -> GPTConfig:
    """Brown et al. 2020, table 2.1, and D.1 for the largest model (174,600 million parameters). Their batches have 0.5
    to 3.2 million tokens; here they are the nearest powers of two.
    """
    return GPTConfig(
        PADDED_VOCAB,
        layers=layers,
        d_model=d_model,
        heads=heads,
        d_head=d_head,
        d_ff=4 * d_model,
        seq=2048,
        batch=batch,
        compute="bfloat16",
        optimizer="adam",
        learning_rate=learning_rate,
    )


PRESETS: dict[str, GPTConfig] = {
    # About 50 ms per step on eight virtual devices of a two-core machine; `model:8` and `data:8` are both legal; tokens are bytes.
    "tiny": GPTConfig(vocab=256, layers=4, d_model=64, heads=8, d_head=8, d_ff=256, seq=64, batch=16, learning_rate=3e-3),
    # The shape of GSPMD's dense wide models, small enough to run: heads four times and d_ff eight times as wide as the stream.
    "tiny-wide": GPTConfig(vocab=256, layers=2, d_model=32, heads=8, d_head=16, d_ff=256, seq=64, batch=16, learning_rate=3e-3),
    # Radford et al. 2019: 124,439,808 parameters before the vocabulary is padded (the paper's 117M is corrected in its repository).
    "gpt2-small": GPTConfig(PADDED_VOCAB, layers=12, d_model=768, heads=12, d_head=64, d_ff=3072, seq=1024, batch=8, biases=True),
    "gpt3-small": _gpt3(12, 768, 12, 64, 256, 6e-4),
    "gpt3-medium": _gpt3(24, 1024, 16, 64, 256, 3e-4),
    "gpt3-large": _gpt3(24, 1536, 16, 96, 256, 2.5e-4),
    "gpt3-1.3b": _gpt3(24, 2048, 16, 128, 512, 2e-4),  # the table has 24 heads of 128, which would give 1.5 billion parameters
    "gpt3-2.7b": _gpt3(32, 2560, 32, 80, 512, 1.6e-4),
    "gpt3-6.7b": _gpt3(32, 4096, 32, 128, 1024, 1.2e-4),
    "gpt3-13b": _gpt3(40, 5120, 40, 128, 1024, 1e-4),  # the table has a d_model of 5140, which does not match 40 heads of 128
    "gpt3-175b": _gpt3(96, 12288, 96, 128, 1024, 6e-5),
    # Xu et al. 2021 (GSPMD, arXiv:2105.04663), the dense wide 64B: its layers hold 64 x 2**30. Vocabulary: lingvo's DenseLmTemplate.
    "gspmd-64b": GPTConfig(
        vocab=32000,
        layers=32,
        d_model=8192,
        heads=128,
        d_head=256,
        d_ff=65536,
        seq=1024,
        batch=64,
        compute="bfloat16",
        optimizer="adam",
        learning_rate=1e-4,
    ),
    # Narrow: d_ff is four times d_model; the weak scaling of table 2, for 64, 128, 256, 512 and 1,024 chips. Its last row is `gpt-1t`.
    "narrow-32b": _dense(40, 8192, 512),
    "narrow-64b": _dense(51, 10240, 512),
    "narrow-128b": _dense(71, 12288, 1024),
    "narrow-256b": _dense(80, 16384, 2048),
    "narrow-512b": _dense(102, 20480, 3072),
    "gpt-1t": _dense(142, 24576, 4096),
    # 507B parameters, which requires the heads together to be a third wider than d_model.
    "meena-500b": _dense(120, 18432, 2048, heads=192, d_ff=65536),
    # Wide: d_ff is eight times d_model. 199B parameters.
    "mlperf-200b": _dense(66, 12288, 4096, d_ff=98304),
}
