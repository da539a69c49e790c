"""English text that ships with Python: the help pages of `pydoc`, about 460,000 bytes."""

from collections.abc import Callable
from functools import cache
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import NDArray

BYTES = 256
"""Vocabulary size: a token is a byte of UTF-8."""


@cache
def corpus() -> NDArray[np.uint8]:
    """The text as uint8[bytes]; pages are in alphabetical order, so it is the same in every process."""
    pages = "\n\n".join(topics[name] for name in sorted(topics))
    text = np.frombuffer(pages.encode(), np.uint8)
    text.setflags(write=False)
    return text


def batches(batch: int, seq: int, seed: int = 0) -> Callable[[int], dict[str, NDArray[np.int32]]]:
    """Function from step to `tokens` and next-byte `targets`, int32[batch, seq], by `(seed, step)` only, so that every
    process draws the same ones and a resumed run continues.
    """

    def data(step: int) -> dict[str, NDArray[np.int32]]:
        text = corpus()
        starts = np.random.default_rng((seed, step)).integers(0, len(text), batch)
        places = (starts[:, None] + np.arange(seq + 1)) % len(text)  # [batch, seq + 1]; the text wraps around, so no seq is too long
        windows = text[places].astype(np.int32)
        return {"tokens": windows[:, :-1], "targets": windows[:, 1:]}

    return data
