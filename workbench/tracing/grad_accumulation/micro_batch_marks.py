"""Marks in a loss that make micro-batches add up: its weight in the mean, its moving averages.

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
from jax.ad_checkpoint import checkpoint_name

WEIGHT = "workbench_micro_batch_weight"
AVERAGE = "workbench_moving_average"


def micro_batch_weight(count: Any) -> Any:
    """`count`, a scalar, marked as what this micro-batch counts for in the mean over micro-batches. Changes no value.

    >>> float(micro_batch_weight(3.0))
    3.0
    """
    return jax.lax.stop_gradient(checkpoint_name(jax.numpy.asarray(count), WEIGHT))


def moving_average(x: Any, average: Any, value: Any) -> Any:
    """`x` as it is; the gradient of parameter `average` is `average - value`, the mean of it over micro-batches.

    >>> jax.grad(lambda mean: moving_average(2.0, mean, jax.numpy.ones(())))(3.0).item()
    2.0
    """
    average = checkpoint_name(jax.numpy.asarray(average), AVERAGE)
    return _follow_average(x, average, jax.lax.stop_gradient(value).astype(average.dtype))


@jax.custom_vjp  # type: ignore[untyped-decorator]
def _follow_average(x: Any, average: Any, value: Any) -> Any:  # noqa: ARG001 - they matter to the derivative
    return x


def _forward(x: Any, average: Any, value: Any) -> tuple[Any, Any]:
    return x, average - value


def _backward(gap: Any, cotangent: Any) -> tuple[Any, Any, Any]:
    return cotangent, gap, jax.numpy.zeros_like(gap)


_follow_average.defvjp(_forward, _backward)
