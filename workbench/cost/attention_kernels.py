"""The share of a chip's peak that an attention kernel reaches, by the size of its heads, the length of its sequences, and their number.

FlashAttention-2 (Dao 2023, arXiv:2307.08691, section 3.2) gives each unit a block of queries, which passes over blocks of keys; its
backward pass the other way round. Of what the chip reaches with long sequences it loses

- the softmax: every score is scaled, exponentiated and summed, as long as `SOFTMAX_DEPTH` multiply-adds: the smaller a head, the more;
- the ends of a pass: a block is loaded and its result written, as long as `PASS_ENDS` blocks of keys;
- the diagonal: a causal mask hides half of each block on it, which is computed;
- units without a block, where heads times blocks of queries are fewer than units.

With fewer queries than a tensor core multiplies at once, as in decoding, blocks of keys are shared among the units (Flash-Decoding, Dao et
al. 2023), and rows that are not there are multiplied.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from workbench.cost.tuned_constants import tuned

SOFTMAX_DEPTH = tuned("softmax_depth")
"""Multiply-adds that the softmax of a score takes as long as."""
PASS_ENDS = tuned("pass_ends")
"""Blocks of keys that the ends of a pass take as long as."""
_FEW = 16  # rows that a tensor core multiplies at once
_BLOCK = 128  # queries, and keys, of a block with heads of up to 128


class AttentionDot(NamedTuple):
    """A dot inside an attention kernel on one device, of the three that `rows`, `columns` and `summed` may be: queries, keys, a head.

    `batch` is sequences x heads, `share` what the kernel computes of the dot: less than 1 where it skips what a mask hides.
    """

    batch: int
    rows: int
    columns: int
    summed: float
    share: float
    is_backward: bool


def attention_slowdown(dot: AttentionDot, units: int) -> float:
    """By how much slower it is than the share of its chip says.

    >>> round(attention_slowdown(AttentionDot(64, 4096, 4096, 128, 0.5, is_backward=False), units=108), 2)
    1.44
    >>> round(attention_slowdown(AttentionDot(64, 512, 512, 64, 0.5, is_backward=False), units=108), 2)
    2.84
    """
    head, *sequences = sorted((float(dot.rows), float(dot.columns), dot.summed))
    if head < _FEW and not dot.is_backward:  # so few are queries
        return _decoding_slowdown(dot.batch, (head, *sequences), units)
    passes, blocks = (ceil(each / _BLOCK) for each in (sequences[::-1] if dot.is_backward else sequences))
    lost = PASS_ENDS + (0.5 if dot.share < 1 else 0.0)
    ends = 1 + lost / (dot.share * blocks)
    idle = max(units / max(dot.batch * passes, 1), 1.0)
    return (1 + SOFTMAX_DEPTH / max(head, 1.0)) * ends * idle


def _decoding_slowdown(batch: int, sides: Sequence[float], units: int) -> float:
    """The same for so few queries of each head: there is no pass over blocks of keys, but a unit for each. `sides` are queries, a head, and
    keys."""
    queries, head, keys = sides
    idle = max(units / max(batch * ceil(keys / _BLOCK), 1), 1.0)
    return (1 + SOFTMAX_DEPTH / head) * _FEW / max(queries, 1.0) * idle
