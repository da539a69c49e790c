"""Parts of a training step of a mixture of experts: a pipeline stage's micro-batch, and its update."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from workbench.core.program import Program
from workbench.models.layers.decoder_blocks import cross_entropy, embed
from workbench.models.mixture.mixture import run_layers
from workbench.models.mixture.mixture_config import MixtureConfig
from workbench.models.mixture.mixture_weights import dims, init
from workbench.tracing import trace_micro_batch, trace_update


def _params(config: MixtureConfig, *, first: bool, last: bool) -> Any:
    return jax.eval_shape(lambda: init(jax.random.key(0), config, scan=False, first=first, last=last))


def micro_batch(config: MixtureConfig, *, first: bool = True, last: bool = True, accumulate: str = "float32") -> Program:
    """Forward and backward of one micro-batch of `config.batch` sequences through a stage of `config.layers` layers.

    As `decoder_stage.micro_batch`. The price of an uneven load counts in the last stage alone: elsewhere a few kilobytes would be added.
    """
    tokens = jax.ShapeDtypeStruct((config.batch, config.seq), jnp.int32)
    activations = jax.ShapeDtypeStruct((config.batch, config.seq, config.d_model), config.compute)
    batch = ({"tokens": tokens} if first else {"x": activations}) | ({"targets": tokens} if last else {})

    def stage(params: Any, batch: Any) -> Any:
        x, load = run_layers(params, embed(params, batch["tokens"], config) if first else batch["x"], config)
        return cross_entropy(params, x, batch["targets"], config) + config.balance * load if last else x

    names = {f"batch/{key}": "batch seq d_model" if key == "x" else "batch seq" for key in batch}
    names |= {} if last else {"cotangent": "batch seq d_model"}
    return trace_micro_batch(
        stage,
        _params(config, first=first, last=last),
        batch,
        accumulate=accumulate,
        dims=names | dims(config, scan=False, first=first, last=last),
        name=f"micro-batch of {config.layers} layers",
    )


def update(config: MixtureConfig, *, replicas: int, first: bool = True, last: bool = True, accumulate: str = "float32") -> Program:
    """The gradients' sum over `replicas`, AdamW and the new parameters of a stage. An expert is on one replica alone, and so is its
    gradient."""
    named, params = dims(config, scan=False, first=first, last=last), _params(config, first=first, last=last)
    lonely = {path for path in named if "experts/w" in path}
    return trace_update(
        params,
        optimizer=optax.adamw(config.learning_rate),
        replicas=jax.tree_util.tree_map_with_path(lambda path, _: 0 if _is_expert(path) else replicas, params),
        accumulate=accumulate,
        dims={
            **{f"params/{path}": names for path, names in named.items()},
            **{f"gradients/{path}": names if path in lonely else f"replica {names}" for path, names in named.items()},
        },
        name=f"update of {config.layers} layers",
    )


def _is_expert(path: Any) -> bool:
    words = [getattr(key, "key", "") for key in path]
    return words[-2:-1] == ["experts"] and words[-1] != "router"
