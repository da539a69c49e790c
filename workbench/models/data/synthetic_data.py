"""Drawn data, by seed and step alone: pictures of stripes, whose direction is the class, and of discs, to be told from what is around;
volumes of balls of several tissues, each with its own brightness; speech, in which every class of sound has its own spectrum."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHAPES = 3
"""Discs in a picture, balls in a volume."""
FRAMES = 4
"""The length of a sound."""


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
    for _ in range(SHAPES):
        center = random.uniform(0, size, (3, 1, 1, 1))
        volume[((places - center) ** 2).sum(0) < (size * random.uniform(0.1, 0.3)) ** 2] = random.integers(1, classes)
    return volume


def speech(batch: int, seq: int, features: int, vocab: int, seed: int = 0) -> Callable[[int], dict[str, NDArray[Any]]]:
    """A function from step to `{"frames": float32[batch, seq, features], "targets": int32[batch, seq]}`, by `(seed, step)` alone."""
    spectra = np.random.default_rng(seed).standard_normal((vocab, features), dtype=np.float32)

    def data(step: int) -> dict[str, NDArray[Any]]:
        random = np.random.default_rng((seed, step))
        sounds = random.integers(0, vocab, (batch, -(-seq // FRAMES)), dtype=np.int32)
        targets = np.repeat(sounds, FRAMES, axis=1)[:, :seq]
        noise = random.standard_normal((batch, seq, features), dtype=np.float32)
        return {"frames": spectra[targets] + 0.5 * noise, "targets": targets}

    return data
