"""Programs in the styles of JAX, of which none names a dimension."""

import os
from collections.abc import Callable
from functools import cache

from tests.support.styles import frameworks, plain
from workbench.core.program import Program

os.environ.setdefault("KERAS_BACKEND", "jax")

STYLES: dict[str, Callable[[], Program]] = {
    each.__name__: each
    for each in (
        *(plain.residual_mlp, plain.scanned_gpt, plain.two_headed_encoder, plain.convolutions, plain.nested_step),
        *(frameworks.equinox_mlp, frameworks.equinox_transformer, frameworks.equinox_fused_attention),
        *(frameworks.nnx_transformer, frameworks.nnx_with_partitioning, frameworks.linen_transformer),
        *(frameworks.haiku_mlp, frameworks.keras_mlp),
    )
}


@cache
def build_style(name: str) -> Program:
    """The program of a style, traced once in a process."""
    return STYLES[name]()
