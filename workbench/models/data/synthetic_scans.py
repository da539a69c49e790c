"""Drawn scans: balls of several tissues, each with its own brightness, in noisy volumes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

BALLS = 3
"""In one volume."""


def batches(batch: int, size: int, image_channels: int, classes: int, seed: int = 0) -> Callable[[int], dict[str, NDArray[Any]]]:
    """A function from step to `{"volumes": float32[batch, depth, height, width, image_channels], "targets": int32[batch, depth, height,
    width]}`, by `(seed, step)` alone; class 0 is what lies around the balls."""

    def data(step: int) -> dict[str, NDArray[Any]]:
        random = np.random.default_rng((seed, step))
        targets = np.stack([_draw_volume(random, size, classes) for _ in range(batch)])
        noise = random.standard_normal((*targets.shape, image_channels), dtype=np.float32)
        return {"volumes": targets[..., None].astype(np.float32) + 0.3 * noise, "targets": targets}

    return data


def _draw_volume(random: np.random.Generator, size: int, classes: int) -> NDArray[np.int32]:
    """int32[depth, height, width]."""
    places = np.indices((size,) * 3)
    volume = np.zeros((size,) * 3, np.int32)
    for _ in range(BALLS):
        center = random.uniform(0, size, (3, 1, 1, 1))
        volume[((places - center) ** 2).sum(0) < (size * random.uniform(0.1, 0.3)) ** 2] = random.integers(1, classes)
    return volume
