"""The sizes of the Conformer, and the published one among them."""

from dataclasses import dataclass

from workbench.models.config_fields import FLOATS, verify_words, word_or_none


@dataclass(frozen=True, slots=True)
class ConformerConfig:
    """One Conformer encoder of speech and how it is trained. Field names of sizes are the names of its dimensions.

    - `features` of a frame, which a front end made; `seq` frames of an utterance; `vocab` classes of a frame;
    - `kernel`: frames that the depthwise convolution sees;
    - `compute`: the type of activations, to which weights are cast where they are used; `None` is that of the parameters.
    """

    vocab: int
    features: int
    layers: int
    d_model: int
    heads: int
    d_head: int
    d_ff: int
    kernel: int
    seq: int
    batch: int
    compute: str | None = word_or_none(*FLOATS)
    learning_rate: float = 3e-4

    def __post_init__(self) -> None:
        verify_words(self)

    @property
    def hidden_channels(self) -> int:
        """Of the convolution: as many as the stream has."""
        return self.d_model


PRESETS: dict[str, ConformerConfig] = {
    # For eight virtual devices, small enough to run.
    "tiny": ConformerConfig(
        vocab=32, features=16, layers=2, d_model=32, heads=4, d_head=8, d_ff=128, kernel=5, seq=64, batch=16, learning_rate=3e-3
    ),
    # Wang et al. 2023 (ASPLOS, "Overlap communication with dependent computation via decomposition"), table 1: 10.4B parameters, 48 layers,
    # d_model 3072, d_ff 12288, a batch of 64. That table does not give heads, kernel, classes and frames. The model is the one of Zhang et
    # al. 2021 (BigSSL, arXiv:2109.13226), whose attention has no table of relative positions: with one it would have 10.9B.
    "bigssl-10b": ConformerConfig(
        vocab=1024,
        features=320,
        layers=48,
        d_model=3072,
        heads=24,
        d_head=128,
        d_ff=12288,
        kernel=5,
        seq=1024,
        batch=64,
        compute="bfloat16",
    ),
}
