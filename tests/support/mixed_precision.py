"""Training steps of the zoo's decoders with parameters in 16 bits and both moments of Adam in 32: 10 bytes a parameter."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from workbench.core.tensor import Role
from workbench.models.decoder import decoder
from workbench.models.decoder.decoder_weights import dims, init
from workbench.models.registry import choose_config
from workbench.reports.report import Report


def _adam_in_float32() -> optax.GradientTransformation:
    """Of parameters in 16 bits optax would keep its moments in 16 bits."""
    adam, widen = optax.adam(1e-3), partial(jax.tree.map, lambda x: x.astype(jnp.float32))
    return optax.GradientTransformation(lambda params: adam.init(widen(params)), adam.update)


@cache
def mixed_precision_step(preset: str, batch: int, seq: int) -> wb.Program:
    config = choose_config("decoder", preset=preset, batch=batch, seq=seq)
    params = jax.eval_shape(partial(init, config=config, scan=True), jax.random.key(0))
    tokens = jax.ShapeDtypeStruct((batch, seq), jnp.int32)
    names = {"batch/*": "batch seq", **dims(config, scan=True)}
    batch_specs = {"tokens": tokens, "targets": tokens}
    return wb.trace_training(decoder.make_loss(config), params, batch_specs, optimizer=_adam_in_float32(), dims=names)


def local_bytes(report: Report, *roles: Role) -> int:
    """Bytes on one device of the arguments of these roles."""
    return sum(each.local_bytes for each in report.arguments if each.tensor.role in roles)
