"""Drawn pictures: stripes, whose direction is the class of a picture, and discs, which are to be told from what lies around them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

DISCS = 3
"""In one picture."""


def stripes(batch: int, size: int, image_channels: int, classes: int, seed: int = 0) -> Callable[[int], dict[str, NDArray[Any]]]:
    """A function from step to `{"images": float32[batch, height, width, image_channels], "targets": int32[batch]}`, by `(seed, step)`
    alone."""

    def data(step: int) -> dict[str, NDArray[Any]]:
        rows, cols = np.indices((size, size), dtype=np.float32)
        random = np.random.default_rng((seed, step))
        targets = random.integers(0, classes, batch).astype(np.int32)
        angles = np.pi * targets[:, None, None] / classes
        waves = np.sin((rows * np.cos(angles) + cols * np.sin(angles)) * 0.8 + random.uniform(0, 2 * np.pi, (batch, 1, 1)))
        noise = random.standard_normal((batch, size, size, image_channels), dtype=np.float32)
        return {"images": (waves[..., None] + 0.3 * noise).astype(np.float32), "targets": targets}

    return data


def discs(batch: int, size: int, image_channels: int, seed: int = 0) -> Callable[[int], dict[str, NDArray[Any]]]:
    """A function from step to `{"images": float32[batch, height, width, image_channels], "targets": int32[batch, height, width]}`, 1 within
    a disc, by `(seed, step)` alone."""

    def draw_disc_mask(random: np.random.Generator) -> NDArray[np.bool_]:
        centers, radii = random.uniform(0, size, (DISCS, 2, 1, 1)), size * random.uniform(0.1, 0.3, (DISCS, 1, 1))
        places = np.indices((size, size))
        return (((places - centers) ** 2).sum(1) < radii**2).any(0)

    def data(step: int) -> dict[str, NDArray[Any]]:
        random = np.random.default_rng((seed, step))
        targets = np.stack([draw_disc_mask(random) for _ in range(batch)]).astype(np.int32)
        noise = random.standard_normal((*targets.shape, image_channels), dtype=np.float32)
        return {"images": targets[..., None].astype(np.float32) + 0.3 * noise, "targets": targets}

    return data
