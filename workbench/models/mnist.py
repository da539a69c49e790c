"""The classifier of Mesh-TensorFlow's README ("MNIST"): images of 28 x 28, one hidden layer of 1024, ten classes.

The digits are synthetic, not downloaded: each class has its own pattern of strokes, with a random shift and noise per
image.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from workbench.core.program import Program
from workbench.tracing import trace_training

SIDE = 28
CLASSES = 10

LAYOUTS = (
    ("all:8", ""),
    ("data:4 model:2", "batch:data"),  # data parallel on four devices, because 8 does not divide the README's batch of 100
    ("all:8", "hidden:all"),
    ("data:4 model:2", "batch:data; hidden:model"),
    ("data:2 model:4", "batch:data; hidden:model"),
    ("data:4 model:2", "batch:data; classes:model"),
    ("data:2 model:4", "batch:data; rows:model"),
    ("data:2 rows:2 model:2", "batch:data; rows:rows; hidden:model"),
    ("data:4 model:2", "batch:data; hidden:data"),  # FSDP-like: weights are sharded over the axis of the batch
)
"""The three layouts of the README (`batch:all`, `hidden:all`, both) and others, on eight devices."""

DIMS = {"images": "batch rows cols", "labels": "batch", "w1": "rows cols hidden", "b1": "hidden", "w2": "hidden classes", "b2": "classes"}

STROKES = {
    "top": (slice(4, 7), slice(8, 20)),
    "middle": (slice(13, 16), slice(8, 20)),
    "bottom": (slice(22, 25), slice(8, 20)),
    "upper left": (slice(4, 15), slice(7, 10)),
    "upper right": (slice(4, 15), slice(18, 21)),
    "lower left": (slice(14, 25), slice(7, 10)),
    "lower right": (slice(14, 25), slice(18, 21)),
}
"""The strokes of a seven-segment digit: rows and columns of the image."""

LIT = (
    "top, upper left, upper right, lower left, lower right, bottom",
    "upper right, lower right",
    "top, upper right, middle, lower left, bottom",
    "top, upper right, middle, lower right, bottom",
    "upper left, upper right, middle, lower right",
    "top, upper left, middle, lower right, bottom",
    "top, upper left, middle, lower left, lower right, bottom",
    "top, upper right, lower right",
    "top, upper left, upper right, middle, lower left, lower right, bottom",
    "top, upper left, upper right, middle, lower right, bottom",
)


def digit(label: int) -> NDArray[np.float32]:
    """Pattern of one class: float32[rows, cols] in 0..1."""
    image = np.zeros((SIDE, SIDE), np.float32)
    for stroke in LIT[label].split(", "):
        image[STROKES[stroke]] = 1
    return image


def batches(batch: int, seed: int = 0) -> Callable[[int], dict[str, NDArray[Any]]]:
    """Function from step to `{"images": float32[batch, rows, cols], "labels": int32[batch]}`, by `(seed, step)`."""
    digits = np.stack([digit(label) for label in range(CLASSES)])

    def data(step: int) -> dict[str, NDArray[Any]]:
        random = np.random.default_rng((seed, step))
        labels = random.integers(0, CLASSES, batch, dtype=np.int32)
        down, right = random.integers(-2, 3, (2, batch, 1, 1))
        rows, cols = (np.arange(SIDE)[:, None] - down) % SIDE, (np.arange(SIDE)[None, :] - right) % SIDE
        noise = 0.3 * random.standard_normal((batch, SIDE, SIDE), dtype=np.float32)
        return {"images": digits[labels[:, None, None], rows, cols] + noise, "labels": labels}

    return data


def init(key: Any, hidden: int = 1024) -> dict[str, Any]:
    key1, key2 = jax.random.split(key)
    return {
        "w1": jax.random.normal(key1, (SIDE, SIDE, hidden)) * (2 / SIDE**2) ** 0.5,
        "b1": jnp.zeros(hidden),
        "w2": jax.random.normal(key2, (hidden, CLASSES)) * (2 / hidden) ** 0.5,
        "b2": jnp.zeros(CLASSES),
    }


def loss(params: dict[str, Any], batch: dict[str, Any]) -> Any:
    with jax.named_scope("hidden"):
        hidden = jax.nn.relu(jnp.einsum("brc,rch->bh", batch["images"], params["w1"]) + params["b1"])
    with jax.named_scope("logits"):
        logits = hidden @ params["w2"] + params["b2"]
    with jax.named_scope("loss"):
        return optax.softmax_cross_entropy(logits, jax.nn.one_hot(batch["labels"], CLASSES)).mean()


def build(*, batch: int = 100, hidden: int = 1024, learning_rate: float = 0.1, optimizer: str = "sgd") -> Program:
    """A training step, with plain SGD unless another `optimizer` is named."""
    specs = {"images": jax.ShapeDtypeStruct((batch, SIDE, SIDE), jnp.float32), "labels": jax.ShapeDtypeStruct((batch,), jnp.int32)}

    def start(key: Any) -> dict[str, Any]:
        return init(key, hidden)

    return trace_training(
        loss,
        jax.eval_shape(lambda: start(jax.random.key(0))),  # a concrete key would initialize the devices
        specs,
        optimizer=f"{optimizer} {learning_rate}",
        dims=DIMS,
        name="mnist",
        init=start,
        data=batches(batch),
    )
