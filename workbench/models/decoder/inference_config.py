"""How a decoder Transformer is kept and asked in inference, and the presets for it."""

from dataclasses import dataclass, fields
from typing import Any

from workbench.models.config_fields import WholeFrom0, one_of, verify_relation
from workbench.models.decoder.config import PRESETS as TRAINED
from workbench.models.decoder.config import DecoderArchitecture, DecoderConfig
from workbench.models.layers.kv_cache import CACHES
from workbench.models.layers.quantized_weights import PLAIN, WEIGHTS


@dataclass(frozen=True, slots=True)
class DecoderInferenceConfig(DecoderArchitecture):
    """A decoder-only Transformer in inference: `batch` sequences at once, all of them equally long.

    - `seq`: the tokens of a prompt, which `decoder_prefill` reads, and after which a run of `decoder_decode` begins;
    - `context`: the length of the cache in tokens; as long as the prompt if it is 0;
    - `weights`: the type in which the weights of products are kept (`models.layers.quantized_weights`); those of a type that is not
      computed with are converted at use, and norms and biases are never scaled;
    - `cache`: the type in which keys and values are kept (`models.layers.kv_cache`).
    """

    context: WholeFrom0 = 0
    weights: str = one_of(*WEIGHTS)
    cache: str = one_of(*CACHES)

    def __post_init__(self) -> None:
        DecoderArchitecture.__post_init__(self)
        verify_context(self.seq, self.context)

    @property
    def cache_length(self) -> int:
        """Tokens that the cache has places for."""
        return self.context or self.seq

    @property
    def architecture(self) -> DecoderConfig:
        """What the layers take: the same model, with positions for every token of the cache."""
        shared = {each.name: getattr(self, each.name) for each in fields(DecoderArchitecture)}
        params = self.weights if self.weights in PLAIN else "bfloat16"
        return DecoderConfig(**{**shared, "seq": self.cache_length}, params=params)


def verify_context(seq: int, context: int) -> None:
    """Raises `DocumentError` for a prompt longer than the cache."""
    verify_relation(
        seq <= (context or seq),
        f"`seq` is {seq} and `context` {context}; the cache has a place for every token of the prompt, so `context` is `seq` or more.",
        f"take `context` {seq}",
        f"take `seq` {context}",
    )


def _in_inference(config: DecoderConfig, **changes: Any) -> DecoderInferenceConfig:
    shared = {each.name: getattr(config, each.name) for each in fields(DecoderArchitecture)}
    return DecoderInferenceConfig(**shared | changes)


PRESETS: dict[str, DecoderInferenceConfig] = {
    name: _in_inference(config, **({"seq": 32, "context": 64, "weights": "float32", "cache": "float32"} if name == "tiny" else {}))
    for name, config in TRAINED.items()
}
"""The models of `decoder.config`, each with its batch and a cache as long as the sequences it was trained on; `tiny` half filled."""
