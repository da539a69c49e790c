"""How a mixture of experts is kept and asked in inference, and the presets for it."""

from dataclasses import dataclass, fields
from typing import Any

from workbench.models.config_fields import WholeFrom0, one_of
from workbench.models.decoder.inference_config import verify_context
from workbench.models.layers.kv_cache import CACHES
from workbench.models.layers.quantized_weights import PLAIN, WEIGHTS
from workbench.models.mixture.config import PRESETS as TRAINED
from workbench.models.mixture.config import MixtureArchitecture, MixtureConfig
from workbench.models.size_limits import verify_divides


@dataclass(frozen=True, slots=True)
class MixtureInferenceConfig(MixtureArchitecture):
    """A Transformer with a mixture of experts in inference: `batch` sequences at once, all of them equally long.

    - `seq`, `context`, `weights`, `cache`: as in `DecoderInferenceConfig`; routers stay in bfloat16 where weights have fewer bits. A latent
      attention caches for each token the latent of keys and values and the position of its key, for all heads together;
    - `token_groups`: in a decoding step, groups of sequences whose tokens choose among the experts together: an expert has places for its
      share of a group, times `capacity_factor`, and computes all of them. If it is 0 each sequence is a group of its own: every expert
      has a place for every token, and none is dropped.
    """

    context: WholeFrom0 = 0
    weights: str = one_of(*WEIGHTS)
    cache: str = one_of(*CACHES)
    token_groups: WholeFrom0 = 0

    def __post_init__(self) -> None:
        MixtureArchitecture.__post_init__(self)
        verify_context(self.seq, self.context)
        if self.token_groups:
            verify_divides("batch", self.batch, self.token_groups, f"its sequences are in {self.token_groups} `token_groups` of as many")

    @property
    def cache_length(self) -> int:
        """Tokens that the cache has places for."""
        return self.context or self.seq

    @property
    def architecture(self) -> MixtureConfig:
        """What the layers take."""
        shared = {each.name: getattr(self, each.name) for each in fields(MixtureArchitecture)}
        return MixtureConfig(**shared, params=self.weights if self.weights in PLAIN else "bfloat16")


def _in_inference(config: MixtureConfig, **changes: Any) -> MixtureInferenceConfig:
    shared = {each.name: getattr(config, each.name) for each in fields(MixtureArchitecture)}
    return MixtureInferenceConfig(**shared | changes)


PRESETS: dict[str, MixtureInferenceConfig] = {
    name: _in_inference(
        config,
        **({"seq": 32, "context": 64, "weights": "float32", "cache": "float32"} if name.startswith("tiny") else {}),
    )
    for name, config in TRAINED.items()
}
"""The models of `mixture.config`, each with its batch and a cache as long as the sequences it was trained on; the tiny ones half filled."""
