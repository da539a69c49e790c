"""The network that `pipeline.py` runs in four ways: equal layers, each a chain of small products, too small to be split over threads.

    x -> tanh(x @ w), PRODUCTS times a layer, LAYERS layers; mean squared error; SGD

NumPy alone, so that a process without JAX has the same numbers.
"""

import numpy as np

STAGES, LAYERS, PRODUCTS, WIDTH, ROWS = 2, 4, 48, 64, 64  # ROWS of a micro-batch
RATE = 0.01


def weights() -> np.ndarray:
    """[LAYERS, PRODUCTS, WIDTH, WIDTH], such that a signal neither dies nor saturates."""
    return (np.random.default_rng(0).standard_normal((LAYERS, PRODUCTS, WIDTH, WIDTH)) * WIDTH**-0.5).astype("float32")


def batch(micro_batches: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    shape = (micro_batches * ROWS, WIDTH)
    return {"x": random.standard_normal(shape).astype("float32"), "y": random.standard_normal(shape).astype("float32")}
