"""Low-rank adapters of frozen weights, which alone are trained (LoRA, Hu et al. 2021, arXiv:2106.09685); with frozen weights of few bits,
QLoRA (Dettmers et al. 2023, arXiv:2305.14314).

    x W + (x A) B          A [contracted dimensions, lora_rank], B [lora_rank, other dimensions], which begins as zeros

Projections that are one weight have one adapter, as in Megatron-Bridge (`linear_qkv`, `linear_proj`, `linear_fc1`,
`linear_fc2`). The update is not scaled: alpha is the rank.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from workbench.models.layers.quantized_weights import SharedDims, multiply
from workbench.tracing.jaxpr.float8_products import Einsum, split_subscripts

TRAINED = "lora/*"
"""Pattern of the adapters' paths."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AdaptedWeight:
    """A frozen weight, plain or quantized, with its adapter."""

    base: Any
    down: Any
    up: Any

    def astype(self, dtype: Any) -> "AdaptedWeight":
        return AdaptedWeight(self.base.astype(dtype), self.down.astype(dtype), self.up.astype(dtype))


def adapter_dims(weights: Mapping[str, str], contracted: SharedDims) -> dict[str, str]:
    """Dimension names of the adapters, by path, of the weights that have contracted dimensions.

    >>> adapter_dims({"mlp/w1": "d_model gate_up d_ff", "norm1/scale": "d_model"}, {"w1": (-3,)})
    {'mlp/lora/w1_a': 'd_model lora_rank', 'mlp/lora/w1_b': 'lora_rank gate_up d_ff'}
    """
    named = {}
    for path, names in weights.items():
        scope, _, name = path.rpartition("/")
        if name in contracted:
            words = names.split()
            inputs = [words[dim] for dim in contracted[name]]
            named[f"{scope}/lora/{name}_a"] = " ".join([*inputs, "lora_rank"])
            named[f"{scope}/lora/{name}_b"] = " ".join(["lora_rank", *(word for word in words if word not in inputs)])
    return named


def adapt(weights: Mapping[str, Any]) -> dict[str, Any]:
    """The weights of a layer with each adapter at its weight."""

    def join(group: Any) -> Any:
        lora = group.get("lora", {}) if isinstance(group, dict) else {}
        adapted = {name: AdaptedWeight(group[name], lora[f"{name}_a"], lora[f"{name}_b"]) for name in group if f"{name}_a" in lora}
        return group | adapted if lora else group

    return {name: join(group) for name, group in weights.items()}


def with_adapters(einsum: Einsum) -> Einsum:
    """`einsum` of plain weights, for adapted and quantized ones, too."""

    def product(subscripts: str, x: Any, weight: Any) -> Any:
        if not isinstance(weight, AdaptedWeight):
            return einsum(subscripts, x, weight)
        left, right, out = split_subscripts(subscripts)
        inputs, rest = ("".join(letter for letter in right if (letter in out) == kept) for kept in (False, True))
        rows = "".join(letter for letter in left if letter not in inputs)
        whole = (einsum if isinstance(weight.base, jax.Array) else multiply)(subscripts, x, weight.base)
        with jax.named_scope("lora"):
            return whole + jnp.einsum(f"{rows}r,r{rest}->{out}", jnp.einsum(f"{left},{inputs}r->{rows}r", x, weight.down), weight.up)

    return product
