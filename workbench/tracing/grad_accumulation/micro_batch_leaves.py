"""The leaves of a batch as each micro-batch has them (`core.micro_batches` says how they are divided)."""

from typing import Any

import jax
import numpy as np

from workbench.core.micro_batches import Split


def micro_batch_spec(spec: jax.ShapeDtypeStruct, split: Split, micro_batches: int) -> jax.ShapeDtypeStruct:
    """Shape and type of a leaf in one micro-batch."""
    if split.dim is None:
        return spec
    shape = (*spec.shape[: split.dim], spec.shape[split.dim] // micro_batches, *spec.shape[split.dim + 1 :])
    return jax.ShapeDtypeStruct(shape, spec.dtype, weak_type=spec.weak_type)


def micro_batch_leaves(leaf: Any, split: Split, micro_batches: int) -> list[Any]:
    """A leaf of a batch as each micro-batch has it; of host arrays, views."""
    if split.dim is not None:
        size = leaf.shape[split.dim] // micro_batches
        at = (slice(None),) * split.dim
        return [leaf[(*at, slice(i * size, (i + 1) * size))] for i in range(micro_batches)]
    if split.folds and micro_batches > 1:
        return [_fold_key(leaf, i) for i in range(micro_batches)]
    return [leaf] * micro_batches


def _fold_key(key: Any, number: int) -> Any:
    """The keys of this micro-batch, in the form they came in."""
    if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key):
        return _fold_each(key, number)
    return np.asarray(jax.random.key_data(_fold_each(jax.random.wrap_key_data(jax.numpy.asarray(key)), number)))


def _fold_each(keys: Any, number: int) -> Any:
    fold = jax.random.fold_in
    for _ in keys.shape:
        fold = jax.vmap(fold, in_axes=(0, None))
    return fold(keys, number)
