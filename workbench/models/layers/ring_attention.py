"""Ring attention: each device has a part of the sequence, and keys and values circulate while it attends to its present ones (Liu et al.
2023, arXiv:2310.01889), in the zigzag order, which gives each device the same work under a causal mask (Zhu 2024, ring-flash-attention;
Megatron-LM's context parallelism).

Letters: R blocks of the sequence, one for each device of the axis that shards it; 2R chunks of c positions; r a block, t a step.

    block    0      1      2      3        R = 4: block r holds chunk r and chunk 2R - 1 - r, early positions and late ones
    chunks   0 7    1 6    2 5    3 4

In step t block r has the keys and values of block r - t (mod R). Step 0 is causal attention within the block. In later steps the
mask is all or nothing for a pair of chunks, and half of the pairs are masked: if r >= t both query chunks see the first key chunk only,
else the second query chunk sees both and the first one none. So each step is two products of chunks: late queries with early keys, and one
product that depends on the block; no masked work is computed.

All devices run one program: blocks are a dimension, and a step's exchange is `jnp.roll` on it, which becomes a collective-permute
if the dimension is sharded. It does not depend on the step's computation, so it overlaps with it. In the backward pass, keys and values
circulate again, followed by their gradients, which return after R steps. The residuals are the result and the log of
each query's sum of exponentials.

Dimensions: b batch, r blocks, p chunks or products (2), c positions of queries, t of keys, h key-value heads, g query heads
per key-value head, k d_head.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workbench.errors import DimensionError
from workbench.tracing import fused_kernel

_NO_KEYS = -1e30
"""Score of masked keys, and log of an empty sum; finite, so that differences are not NaN."""

Partial = tuple[Any, Any]
"""Attention to a part of the keys: the mean of their values [b, r, p, c, h, g, k], and logsumexp of the scores. The
latter is float32[b, r, p, h, g, c].
"""


def zigzag(x: Any, ring: int, axis: int = 0) -> Any:
    """Reorder a JAX or NumPy array along `axis`, the sequence, for `ring` blocks.

    Raises `DimensionError` if the length is not a multiple of 2 `ring`.

    >>> zigzag(np.arange(16), 4).reshape(4, 4).tolist()
    [[0, 1, 14, 15], [2, 3, 12, 13], [4, 5, 10, 11], [6, 7, 8, 9]]
    """
    if ring == 1:
        return x
    _verify_chunks(x.shape[axis], ring)
    library = np if isinstance(x, np.ndarray) else jnp
    chunks = library.moveaxis(x, axis, 0).reshape(2 * ring, -1, *(size for dim, size in enumerate(x.shape) if dim != axis))
    ordered = library.stack([chunks[:ring], chunks[: ring - 1 : -1]], 1)
    return library.moveaxis(ordered.reshape(-1, *ordered.shape[3:]), 0, axis)


def _verify_chunks(seq: int, ring: int) -> None:
    if ring < 1 or seq % (2 * ring):
        raise DimensionError(
            f"A ring of {ring} blocks holds {2 * ring} chunks of a sequence, and {seq:,} positions are no multiple of {2 * ring}.",
            [f"make the sequence {-(-seq // (2 * ring)) * 2 * ring:,} long", "choose another `ring`"]
            if ring > 0
            else ["make `ring` 1 or more"],
        )


def zigzag_positions(seq: int, ring: int) -> Any:
    """Positions of a sequence in zigzag order, computed on each device for its block: int32[seq]."""
    _verify_chunks(seq, ring)
    shape = (ring, 2, seq // (2 * ring))
    block, half, place = (jax.lax.broadcasted_iota(jnp.int32, shape, dim) for dim in range(3))
    return (jnp.where(half == 0, block, 2 * ring - 1 - block) * shape[2] + place).reshape(seq)


def ring_attention(query: Any, key: Any, value: Any, *, ring: int, fused: bool = True) -> Any:
    """Causal attention over `ring` blocks of a sequence in zigzag order.

    Queries and result are [b, seq, h, g, k]; keys and values have 1 instead of g. `fused`: each step is one
    hand-written kernel that never stores scores. Raises `DimensionError` like `zigzag`.
    """
    _verify_chunks(query.shape[1], ring)

    def split(x: Any) -> Any:
        return x.reshape(x.shape[0], ring, 2, -1, *x.shape[2:])

    pair = jnp.stack([split(key).squeeze(5), split(value).squeeze(5)], 2)
    return _attend(split(query), pair, fused).reshape(query.shape)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _attend(query: Any, pair: Any, fused: bool) -> Any:
    """Attention [b, r, p, c, h, g, k] of queries of that shape to `pair`, keys and values [b, r, 2, p, t, h, k]."""
    return _forward(query, pair, fused)[0]


def _forward(query: Any, pair: Any, fused: bool) -> tuple[Any, Any]:
    ring, passed = query.shape[1], pair
    other = _kernel("ring_other", _attend_other, fused=fused)

    def step(carry: tuple[Any, Partial], t: Any) -> tuple[tuple[Any, Partial], None]:
        pair, merged = carry
        merged = _join(merged, other(query, pair, t))
        return (_pass_on(pair), merged), None

    merged = _kernel("ring_own", _attend_own, fused=fused, work=0.5)(query, pair)
    if ring > 1:
        (passed, merged), _ = jax.lax.scan(step, (_pass_on(pair), merged), jnp.arange(1, ring - 1))
        merged = _join(merged, other(query, passed, ring - 1))
    result = merged[0].astype(query.dtype)
    return result, (query, pair, result, merged[1])


def _backward(fused: bool, residuals: Any, arriving: Any) -> tuple[Any, Any]:
    query, pair, result, log_sum = residuals
    ring = query.shape[1]
    with jax.named_scope("ring_delta"):
        delta = _swap(jnp.sum(arriving.astype(jnp.float32) * result.astype(jnp.float32), -1))
    rows = query, arriving, log_sum, delta
    other = _kernel("ring_other_gradient", _other_gradient, fused=fused)

    def step(carry: tuple[Any, Any, Any], t: Any) -> tuple[tuple[Any, Any, Any], None]:
        pair, pair_gradient, query_gradient = carry
        for_query, for_pair = other(rows, pair, t)
        return (_pass_on(pair), _pass_on(pair_gradient) + for_pair, query_gradient + for_query), None

    query_gradient, pair_gradient = _kernel("ring_own_gradient", _own_gradient, fused=fused, work=0.5)(rows, pair)
    if ring > 1:
        (pair, pair_gradient, query_gradient), _ = jax.lax.scan(
            step, (_pass_on(pair), pair_gradient, query_gradient), jnp.arange(1, ring - 1)
        )
        for_query, for_pair = other(rows, pair, ring - 1)
        query_gradient, pair_gradient = query_gradient + for_query, _pass_on(_pass_on(pair_gradient) + for_pair)
    return query_gradient.astype(query.dtype), pair_gradient


_attend.defvjp(_forward, _backward)


def _kernel(name: str, compute: Callable[..., Any], *, fused: bool, work: float = 1.0) -> Callable[..., Any]:
    """`compute` in a named scope, as one hand-written kernel if `fused`. Checkpointed: otherwise a scan over layers
    would make and keep masks as large as all scores.
    """

    def call(*operands: Any) -> Any:
        with fused_kernel(name, work=work) if fused else jax.named_scope(name):
            return jax.checkpoint(compute)(*operands)

    return call


def _pass_on(x: Any) -> Any:
    with jax.named_scope("pass_on"):
        return jnp.roll(x, 1, axis=1)


def _swap(x: Any) -> Any:
    """Transpose [..., c, h, g] to [..., h, g, c]."""
    return jnp.moveaxis(x, -3, -1)


def _attend_own(query: Any, pair: Any) -> Partial:
    """Step 0: attention within a block. Its two chunks are in order, so the mask is that of a sequence."""
    scores = _own_scores(query, pair[:, :, 0])
    log_sum = jax.nn.logsumexp(scores, -1)
    mean = jnp.einsum("brhgct,brthk->brchgk", jnp.exp(scores - log_sum[..., None]).astype(query.dtype), _flat(pair[:, :, 1]))
    halves = log_sum.reshape(*log_sum.shape[:-1], 2, -1)
    return mean.reshape(query.shape).astype(jnp.float32), jnp.moveaxis(halves, -2, 2)


def _own_scores(query: Any, key: Any) -> Any:
    """Scores float32[b, r, h, g, positions of the block, positions of the block]."""
    scores = jnp.einsum("brchgk,brthk->brhgct", _flat(query), _flat(key), preferred_element_type=jnp.float32) * query.shape[-1] ** -0.5
    places = jnp.arange(scores.shape[-1])
    return jnp.where(places[:, None] >= places[None, :], scores, _NO_KEYS)


def _flat(x: Any) -> Any:
    """Merge the chunks [b, r, p, c, ...] of a block to [b, r, positions of the block, ...]."""
    return x.reshape(*x.shape[:2], -1, *x.shape[4:])


def _own_gradient(rows: tuple[Any, ...], pair: Any) -> tuple[Any, Any]:
    query, arriving, log_sum, delta = rows
    log_sum, delta = (jnp.moveaxis(row, 2, -2).reshape(*row.shape[:2], *row.shape[3:5], -1)[..., None] for row in (log_sum, delta))
    shares = jnp.exp(_own_scores(query, pair[:, :, 0]) - log_sum)
    by_share = jnp.einsum("brchgk,brthk->brhgct", _flat(arriving), _flat(pair[:, :, 1]), preferred_element_type=jnp.float32)
    by_score = (shares * (by_share - delta) * query.shape[-1] ** -0.5).astype(query.dtype)
    for_query = jnp.einsum("brhgct,brthk->brchgk", by_score, _flat(pair[:, :, 0])).astype(jnp.float32)
    for_key = jnp.einsum("brhgct,brchgk->brthk", by_score, _flat(query))
    for_value = jnp.einsum("brhgct,brchgk->brthk", shares.astype(query.dtype), _flat(arriving))
    return for_query.reshape(query.shape), jnp.stack([for_key, for_value], 2).reshape(pair.shape)


def _attend_other(query: Any, pair: Any, t: Any) -> Partial:
    """Step t, for both chunks of queries; a chunk that sees no keys gets an empty sum."""
    before = _before(query.shape[1], t)
    key, value = (_of_keys(pair[:, :, part], before) for part in range(2))
    scores = _scores(_of_queries(query, before), key)
    log_sum = jax.nn.logsumexp(scores, -1)
    mean = jnp.einsum("brphgct,brpthk->brpchgk", jnp.exp(scores - log_sum[..., None]).astype(query.dtype), value)
    late, either = ((mean[:, :, product], log_sum[:, :, product]) for product in range(2))
    both = _join(late, either)
    halves = [_choose(before, one, other) for one, other in zip((*either, *late), (*_nothing(either), *both), strict=True)]
    return jnp.stack([halves[0], halves[2]], 2).astype(query.dtype), jnp.stack([halves[1], halves[3]], 2)


def _other_gradient(rows: tuple[Any, ...], pair: Any, t: Any) -> tuple[Any, Any]:
    before = _before(pair.shape[1], t)
    query, arriving, log_sum, delta = (_of_queries(row, before) for row in rows)
    key, value = (_of_keys(pair[:, :, part], before) for part in range(2))
    shares = jnp.exp(_scores(query, key) - log_sum[..., None])
    by_share = jnp.einsum("brpchgk,brpthk->brphgct", arriving, value, preferred_element_type=jnp.float32)
    by_score = (shares * (by_share - delta[..., None]) * query.shape[-1] ** -0.5).astype(query.dtype)
    for_query = jnp.einsum("brphgct,brpthk->brpchgk", by_score, key)
    for_key = jnp.einsum("brphgct,brpchgk->brpthk", by_score, query)
    for_value = jnp.einsum("brphgct,brpchgk->brpthk", shares.astype(query.dtype), arriving)
    late, either = (for_query[:, :, product] for product in range(2))
    halves = jnp.stack([_choose(before, either, 0), late + _choose(before, 0, either)], 2)
    return halves, jnp.stack([_to_halves_of_keys(gradient, before) for gradient in (for_key, for_value)], 2)


def _scores(query: Any, key: Any) -> Any:
    return jnp.einsum("brpchgk,brpthk->brphgct", query, key, preferred_element_type=jnp.float32) * query.shape[-1] ** -0.5


def _before(ring: int, t: Any) -> Any:
    """Whether the keys of each block in step t come from an earlier block: bool[r]."""
    return jnp.arange(ring) >= t


def _choose(before: Any, one: Any, other: Any) -> Any:
    rank = max(jnp.ndim(one), jnp.ndim(other))
    return jnp.where(before.reshape(1, -1, *[1] * (rank - 2)), one, other)


def _of_queries(x: Any, before: Any) -> Any:
    """Rows of both products from [b, r, p, ...]: the late chunk, and the early one if it sees keys."""
    early, late = x[:, :, 0], x[:, :, 1]
    return jnp.stack([late, _choose(before, early, late)], 2)


def _of_keys(x: Any, before: Any) -> Any:
    """Columns of both products from [b, r, p, ...]: the early chunk, and the late one if it is seen."""
    early, late = x[:, :, 0], x[:, :, 1]
    return jnp.stack([early, _choose(before, early, late)], 2)


def _to_halves_of_keys(x: Any, before: Any) -> Any:
    """Sum the results of both products per chunk; transpose of `_of_keys`."""
    early, either = x[:, :, 0], x[:, :, 1]
    return jnp.stack([early + _choose(before, either, 0), _choose(before, 0, either)], 2)


def _nothing(found: Partial) -> Partial:
    return jnp.zeros_like(found[0]), jnp.full_like(found[1], _NO_KEYS)


def _join(one: Partial, other: Partial) -> Partial:
    log_sum = jnp.logaddexp(one[1], other[1])
    shares = (jnp.moveaxis(jnp.exp(part[1] - log_sum), -1, -3)[..., None] for part in (one, other))
    return sum(share * part[0] for share, part in zip(shares, (one, other), strict=True)), log_sum
