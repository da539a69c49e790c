"""What makes micro-batches add up: marks in a loss for its weight in the mean and its moving averages, the gradient of a step from the sum
over micro-batches, and the leaves of a batch as each of them has them.

A step of m micro-batches is the mean of their losses and of their gradients. Three cases need care:

- *Means over unequal masks.* The mean of a batch is (sum of losses) / (sum of counts), not the mean of the micro-batches' means. Write

      return total / wb.micro_batch_weight(mask.sum())

  and each micro-batch counts with its `mask.sum()`.

- *Statistics of a batch* (batch normalisation). Each micro-batch is normalised by its own, in training and in every pipeline
  (GPipe, Huang et al. 2019, section 2.2); what is kept for later is one average a mini-batch over all of it. Keep running means of x and
  of x * x as parameters and write

      x = wb.moving_average(x, params["mean"], x.mean(0))

  where the gradient of `mean` becomes (mean - x.mean(0)), the average over the micro-batches; `optax.sgd(0.1)` on these parameters
  (`optax.multi_transform`) then makes of it mean <- 0.9 mean + 0.1 x.mean(0), once a mini-batch, and the optimiser of the others leaves
  them alone.

- *Dropout.* A random key in the batch, without a batch dimension, is folded with the micro-batch's number, so that each draws its own
  mask and recomputation draws the same again. A key for every example (a key array with the batch dimension) is split with the batch:
  then the mask is the same for every number of micro-batches.
"""

from typing import Any

import jax
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from workbench.core.pipeline_spec import Split

WEIGHT = "workbench_micro_batch_weight"
AVERAGE = "workbench_moving_average"


def micro_batch_weight(count: Any) -> Any:
    """Mark the scalar `count` as the weight of this micro-batch in the mean over micro-batches, and return it unchanged.

    >>> float(micro_batch_weight(3.0))
    3.0
    """
    return jax.lax.stop_gradient(checkpoint_name(jax.numpy.asarray(count), WEIGHT))


def moving_average(x: Any, average: Any, value: Any) -> Any:
    """`x` unchanged; the gradient of parameter `average` is `average - value`, averaged over micro-batches.

    >>> jax.grad(lambda mean: moving_average(2.0, mean, jax.numpy.ones(())))(3.0).item()
    2.0
    """
    average = checkpoint_name(jax.numpy.asarray(average), AVERAGE)
    return _follow_average(x, average, jax.lax.stop_gradient(value).astype(average.dtype))


@jax.custom_vjp  # type: ignore[untyped-decorator]
def _follow_average(x: Any, average: Any, value: Any) -> Any:  # noqa: ARG001 - used by the derivative
    return x


def _forward(x: Any, average: Any, value: Any) -> tuple[Any, Any]:
    return x, average - value


def _backward(gap: Any, cotangent: Any) -> tuple[Any, Any, Any]:
    return cotangent, gap, jax.numpy.zeros_like(gap)


_follow_average.defvjp(_forward, _backward)


# The gradient of a step from the gradients of its micro-batches.


def mean_gradient(gradient_sum: Any, dtype: Any, total: Any, micro_batches: int, *, is_average: bool) -> Any:
    """The mean of a parameter's gradients, in the parameter's `dtype`.

    Each micro-batch is weighted (`micro_batch_weight`), and `total` is the sum of the weights; for a `moving_average`,
    micro-batches count equally.
    """
    return (gradient_sum / (micro_batches if is_average else total)).astype(dtype)


# The leaves of a micro-batch (`core.pipeline_spec` defines how a batch is split).


def micro_batch_spec(spec: jax.ShapeDtypeStruct, split: Split, micro_batches: int) -> jax.ShapeDtypeStruct:
    """Shape and type of a leaf in one micro-batch."""
    if split.dim is None:
        return spec
    shape = (*spec.shape[: split.dim], spec.shape[split.dim] // micro_batches, *spec.shape[split.dim + 1 :])
    return jax.ShapeDtypeStruct(shape, spec.dtype, weak_type=spec.weak_type)


def micro_batch_leaves(leaf: Any, split: Split, micro_batches: int) -> list[Any]:
    """A leaf of a batch split into micro-batches; views for host arrays."""
    if split.dim is not None:
        size = leaf.shape[split.dim] // micro_batches
        at = (slice(None),) * split.dim
        return [leaf[(*at, slice(i * size, (i + 1) * size))] for i in range(micro_batches)]
    if split.folds and micro_batches > 1:
        return [_fold_key(leaf, i) for i in range(micro_batches)]
    return [leaf] * micro_batches


def _fold_key(key: Any, number: int) -> Any:
    if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key):
        return fold_each(key, number)
    return np.asarray(jax.random.key_data(fold_each(jax.random.wrap_key_data(jax.numpy.asarray(key)), number)))


def fold_each(keys: Any, number: Any) -> Any:
    """The keys of the micro-batch with this number."""
    fold = jax.random.fold_in
    for _ in keys.shape:
        fold = jax.vmap(fold, in_axes=(0, None))
    return fold(keys, number)
