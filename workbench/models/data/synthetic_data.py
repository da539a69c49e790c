"""Synthetic data that depends only on seed and step: stripes, discs, scans and speech.

The class of a stripe image is its direction; discs are to be segmented from noise; scans have balls of several tissues,
each with its own brightness; each class of sound has its own spectrum.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHAPES = 3
"""Discs per image, balls per volume."""
FRAMES = 4
"""Frames per sound."""


def stripes(batch: int, size: int, image_channels: int, classes: int, seed: int = 0) -> Callable[[int], dict[str, NDArray[Any]]]:
    """Function from step to `images` [batch, height, width, image_channels] and `targets` int32[batch]."""

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
    """Function from step to `images` [batch, height, width, image_channels] and `targets`, 1 within a disc."""

    def draw_disc_mask(random: np.random.Generator) -> NDArray[np.bool_]:
        centers, radii = random.uniform(0, size, (SHAPES, 2, 1, 1)), size * random.uniform(0.1, 0.3, (SHAPES, 1, 1))
        places = np.indices((size, size))
        return (((places - centers) ** 2).sum(1) < radii**2).any(0)

    def data(step: int) -> dict[str, NDArray[Any]]:
        random = np.random.default_rng((seed, step))
        targets = np.stack([draw_disc_mask(random) for _ in range(batch)]).astype(np.int32)
        noise = random.standard_normal((*targets.shape, image_channels), dtype=np.float32)
        return {"images": targets[..., None].astype(np.float32) + 0.3 * noise, "targets": targets}

    return data


def scans(batch: int, size: int, image_channels: int, classes: int, seed: int = 0) -> Callable[[int], dict[str, NDArray[Any]]]:
    """Function from step to `volumes` and `targets` [batch, depth, height, width]; class 0 is the background."""

    def data(step: int) -> dict[str, NDArray[Any]]:
        random = np.random.default_rng((seed, step))
        targets = np.stack([_draw_volume(random, size, classes) for _ in range(batch)])
        noise = random.standard_normal((*targets.shape, image_channels), dtype=np.float32)
        return {"volumes": targets[..., None].astype(np.float32) + 0.3 * noise, "targets": targets}

    return data


def _draw_volume(random: np.random.Generator, size: int, classes: int) -> NDArray[np.int32]:
    places = np.indices((size,) * 3)
    volume = np.zeros((size,) * 3, np.int32)
    for _ in range(SHAPES):
        center = random.uniform(0, size, (3, 1, 1, 1))
        volume[((places - center) ** 2).sum(0) < (size * random.uniform(0.1, 0.3)) ** 2] = random.integers(1, classes)
    return volume


def speech(batch: int, seq: int, features: int, vocab: int, seed: int = 0) -> Callable[[int], dict[str, NDArray[Any]]]:
    """Function from step to `frames` float32[batch, seq, features] and `targets` int32[batch, seq], by `(seed, step)`."""
    spectra = np.random.default_rng(seed).standard_normal((vocab, features), dtype=np.float32)

    def data(step: int) -> dict[str, NDArray[Any]]:
        random = np.random.default_rng((seed, step))
        sounds = random.integers(0, vocab, (batch, -(-seq // FRAMES)), dtype=np.int32)
        targets = np.repeat(sounds, FRAMES, axis=1)[:, :seq]
        noise = random.standard_normal((batch, seq, features), dtype=np.float32)
        return {"frames": spectra[targets] + 0.5 * noise, "targets": targets}

    return data
