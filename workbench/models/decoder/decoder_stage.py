"""Parts of a decoder's training step: a micro-batch of a pipeline stage, and the update of a stage."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.decoder import decoder
from workbench.models.decoder.decoder_config import DecoderConfig
from workbench.models.decoder.decoder_weights import dims, init
from workbench.models.layers.decoder_blocks import cross_entropy
from workbench.tracing import optimizer, trace_micro_batch, trace_update


def _params(config: DecoderConfig, *, scan: bool, first: bool, last: bool) -> Any:
    return jax.eval_shape(lambda: init(jax.random.key(0), config, scan=scan, first=first, last=last))


def micro_batch(
    config: DecoderConfig, *, first: bool = True, last: bool = True, scan: bool = False, accumulate: str = "float32"
) -> Program:
    """Trace forward and backward of one micro-batch of `config.batch` sequences through a stage of `config.layers`
    layers.

    The first stage begins with tokens and the embedding, the others with `batch/x`, the activations from the previous
    stage; the last stage ends with the head and the loss.
    """
    tokens = jax.ShapeDtypeStruct((config.batch, config.seq), jnp.int32)
    activations = jax.ShapeDtypeStruct((config.batch, config.seq, config.d_model), config.compute)
    batch = ({"tokens": tokens} if first else {"x": activations}) | ({"targets": tokens} if last else {}) | decoder.dropout_key_spec(config)

    def stage(params: Any, batch: Any) -> Any:
        x = decoder.begin(params, batch["tokens"], config) if first else batch["x"]
        x = decoder.run_layers(params, x, config, batch.get("key"))
        return cross_entropy(params, x, batch["targets"], config) if last else x

    names = {f"batch/{key}": {"x": "batch seq d_model", "key": "word"}.get(key, "batch seq") for key in batch}
    names |= {} if last else {"cotangent": "batch seq d_model"}
    return trace_micro_batch(
        stage,
        _params(config, scan=scan, first=first, last=last),
        batch,
        accumulate=accumulate,
        dims=names | dims(config, scan=scan, first=first, last=last),
        name=f"micro-batch of {config.layers} layers",
    )


def update(
    config: DecoderConfig, *, replicas: int = 1, first: bool = True, last: bool = True, scan: bool = False, accumulate: str = "float32"
) -> Program:
    """The gradients' sum over `replicas`, the optimizer and the new parameters of a stage."""
    named = dims(config, scan=scan, first=first, last=last)
    build = partial(_params, scan=scan, first=first, last=last)
    params = build(config)
    return trace_update(
        params,
        optimizer=optimizer(f"{config.optimizer} {config.learning_rate}", params=params, dims=named),
        replicas=replicas,
        accumulate=accumulate,
        dims={
            **{f"params/{path}": names for path, names in named.items()},
            **{f"gradients/{path}": f"replica {names}" for path, names in named.items()},
        },
        name=f"update of {config.layers} layers",
    )
