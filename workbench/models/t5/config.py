"""The sizes of the encoder-decoder Transformer, and the published ones."""

from dataclasses import dataclass

from workbench.models.config_fields import FLOATS, verify_relation, verify_words, word_or_none


@dataclass(frozen=True, slots=True)
class T5Config:
    """One encoder-decoder Transformer and how it is trained. Field names of sizes are the names of its dimensions.

    - `layers` of the encoder, and as many of the decoder;
    - `seq` tokens are read and `target_seq` written;
    - `gate_up`: 2 for GELU times a second projection (Shazeer 2020, T5 1.1), 1 for a rectifier (T5);
    - `buckets` of relative distance, each with a bias for every head;
    - `tied`: the head is the table of the embedding;
    - `compute`: the type of activations, to which weights are cast where they are used; `None` is that of the parameters.
    """

    vocab: int
    layers: int
    d_model: int
    heads: int
    d_head: int
    d_ff: int
    seq: int
    target_seq: int
    batch: int
    gate_up: int = 2
    buckets: int = 32
    tied: bool = False
    compute: str | None = word_or_none(*FLOATS)
    learning_rate: float = 3e-4

    def __post_init__(self) -> None:
        verify_words(self)
        verify_relation(
            self.gate_up in (1, 2), f"`gate_up` is {self.gate_up}; a layer has 2 (GELU, gated) or 1 (a rectifier).", "take 1", "take 2"
        )
        verify_relation(
            self.buckets >= 4 and self.buckets % 2 == 0,
            f"`buckets` is {self.buckets}; half of them are of the future, and half of each side of single distances.",
            "take an even number from 4",
        )


PRESETS: dict[str, T5Config] = {
    # For eight virtual devices, small enough to run; tokens are bytes.
    "tiny": T5Config(
        vocab=256, layers=2, d_model=32, heads=4, d_head=8, d_ff=64, seq=32, target_seq=16, batch=16, buckets=8, learning_rate=3e-3
    ),
    # Raffel et al. 2020 (arXiv:1910.10683), section 3.1.2 and 3.7: 220 million and 11 billion parameters. 128 sequences of 512 in a batch,
    # of which 114 or fewer tokens are written: here 128. The larger is wide: d_ff is 64 times d_model.
    "t5-base": T5Config(
        32128, layers=12, d_model=768, heads=12, d_head=64, d_ff=3072, seq=512, target_seq=128, batch=128, gate_up=1, tied=True
    ),
    "t5-11b": T5Config(
        32128,
        layers=24,
        d_model=1024,
        heads=128,
        d_head=128,
        d_ff=65536,
        seq=512,
        target_seq=128,
        batch=2048,
        gate_up=1,
        tied=True,
        compute="bfloat16",
    ),
    # Wang et al. 2023 (ASPLOS, "Overlap communication with dependent computation via decomposition"), table 1: 290B parameters, 64 layers,
    # d_model 12288, d_ff 36864, a batch of 3,072. The count follows if both encoder and decoder have 64 layers, and d_ff two projections.
    "t5-300b": T5Config(
        32128, layers=64, d_model=12288, heads=96, d_head=128, d_ff=36864, seq=512, target_seq=128, batch=3072, compute="bfloat16"
    ),
}
