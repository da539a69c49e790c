"""Parts of a mixture model's training step: a micro-batch of a pipeline stage, and the update of a stage."""

from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.layers.decoder_blocks import cross_entropy, embed
from workbench.models.mixture.mixture import run_layers
from workbench.models.mixture.mixture_config import MixtureConfig
from workbench.models.mixture.mixture_weights import dims, init
from workbench.tracing import optimizer, trace_micro_batch, trace_update


def _params(config: MixtureConfig, *, first: bool, last: bool) -> Any:
    return jax.eval_shape(lambda: init(jax.random.key(0), config, scan=False, first=first, last=last))


def micro_batch(config: MixtureConfig, *, first: bool = True, last: bool = True, accumulate: str = "float32") -> Program:
    """Like `decoder_stage.micro_batch`; the load imbalance counts in the last stage only, which saves a few kilobytes
    elsewhere.
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
    """The gradients' sum over `replicas`, the optimizer and the new parameters of a stage. An expert is on one replica alone, and so is its
    gradient."""
    named, params = dims(config, scan=False, first=first, last=last), _params(config, first=first, last=last)
    unreplicated = {path for path in named if "experts/w" in path}
    return trace_update(
        params,
        optimizer=optimizer(f"{config.optimizer} {config.learning_rate}", params=params, dims=named),
        replicas=jax.tree_util.tree_map_with_path(lambda path, _: 0 if _is_expert(path) else replicas, params),
        accumulate=accumulate,
        dims={
            **{f"params/{path}": names for path, names in named.items()},
            **{f"gradients/{path}": names if path in unreplicated else f"replica {names}" for path, names in named.items()},
        },
        name=f"update of {config.layers} layers",
    )


def _is_expert(path: Any) -> bool:
    words = [getattr(key, "key", "") for key in path]
    return words[-2:-1] == ["experts"] and words[-1] != "router"
