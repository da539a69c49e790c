"""Drawn speech: utterances in which every class of sound has its own spectrum, a few frames long each, under noise."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

FRAMES = 4
"""The length of a sound."""


def batches(batch: int, seq: int, features: int, vocab: int, seed: int = 0) -> Callable[[int], dict[str, NDArray[Any]]]:
    """A function from step to `{"frames": float32[batch, seq, features], "targets": int32[batch, seq]}`, by `(seed, step)` alone."""
    spectra = np.random.default_rng(seed).standard_normal((vocab, features), dtype=np.float32)

    def data(step: int) -> dict[str, NDArray[Any]]:
        random = np.random.default_rng((seed, step))
        sounds = random.integers(0, vocab, (batch, -(-seq // FRAMES)), dtype=np.int32)
        targets = np.repeat(sounds, FRAMES, axis=1)[:, :seq]
        noise = random.standard_normal((batch, seq, features), dtype=np.float32)
        return {"frames": spectra[targets] + 0.5 * noise, "targets": targets}

    return data
