"""The gradient of a step from the gradients of its micro-batches."""

from typing import Any


def mean_gradient(gradient_sum: Any, dtype: Any, total: Any, micro_batches: int, *, is_average: bool) -> Any:
    """The mean of a parameter's gradients, in the parameter's `dtype`.

    Each micro-batch counts for its weight in the loss (`micro_batch_marks.micro_batch_weight`), and `total` is the sum of the weights. For
    a moving average (`micro_batch_marks.moving_average`) every micro-batch counts alike.
    """
    return (gradient_sum / (micro_batches if is_average else total)).astype(dtype)
