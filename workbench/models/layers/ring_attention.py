"""Ring attention: each device has its part of the sequence, and keys and values go around while it attends to those it has (Liu et al.
2023, arXiv:2310.01889), with the zigzag order that gives each device the same work under a causal mask (Zhu 2024, ring-flash-attention;
Megatron-LM's context parallelism).

Letters: R blocks of the sequence, one for each device of the axis that splits it; 2R chunks of c positions; r a block, t a step.

    block    0      1      2      3        R = 4: block r holds chunk r and chunk 2R - 1 - r, early positions and late ones
    chunks   0 7    1 6    2 5    3 4

In step t block r has the keys and values of block r - t (mod R). In step 0 those are its own: a causal attention in the block. Later the
mask is all or nothing for a chunk, and half of it nothing: where r >= t both its chunks see the first chunk there and not the second,
elsewhere its second chunk sees both and its first none. So each step is two products of chunks, late queries with early keys, and one
that depends on the block; none of it is masked work.

The program is one for all devices: blocks are a dimension, and a step's exchange is `jnp.roll` on it, which becomes a collective permute
where the dimension is split. It depends on nothing that is computed in the step, so it goes on beside it. Backward, keys and values go
around again, with the gradients of theirs behind them, which come home after R steps. What is kept for it is the result and the log of
each query's sum.

Dimensions: b batch, r blocks, p chunks or products (2), c positions of queries, t of keys, h heads of keys and values, g heads of queries
for each of these, k d_head.
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
"""A score that counts for nothing, and the log of the sum of none; finite, so that differences of two are numbers."""

Partial = tuple[Any, Any]
"""What attention to some keys gives: the mean of their values [b, r, p, c, h, g, k], and the log of the sum of exp(scores), float32
[b, r, p, h, g, c]."""


def zigzag(x: Any, ring: int, axis: int = 0) -> Any:
    """An array, JAX's or NumPy's, with the sequence along `axis` in the order that `ring` blocks hold it. Raises `DimensionError` if it has
    no 2 `ring` chunks that are alike.

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
    """The positions of a sequence in that order, as a value that each device computes for its block: int32[seq]."""
    _verify_chunks(seq, ring)
    shape = (ring, 2, seq // (2 * ring))
    block, half, place = (jax.lax.broadcasted_iota(jnp.int32, shape, dim) for dim in range(3))
    return (jnp.where(half == 0, block, 2 * ring - 1 - block) * shape[2] + place).reshape(seq)


def ring_attention(query: Any, key: Any, value: Any, *, ring: int, fused: bool = True) -> Any:
    """Causal attention over `ring` blocks of a sequence in zigzag order: [b, seq, h, g, k] from the same, and keys and values with one
    instead of g.

    `fused`: the attention of a step is one hand-written kernel, whose scores are never stored. Raises `DimensionError` as `zigzag` does.
    """
    _verify_chunks(query.shape[1], ring)

    def split(x: Any) -> Any:
        return x.reshape(x.shape[0], ring, 2, -1, *x.shape[2:])

    pair = jnp.stack([split(key).squeeze(5), split(value).squeeze(5)], 2)
    return _attend(split(query), pair, fused).reshape(query.shape)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _attend(query: Any, pair: Any, fused: bool) -> Any:
    """[b, r, p, c, h, g, k] from the same, and `pair` of keys and values [b, r, 2, p, t, h, k]."""
    return _forward(query, pair, fused)[0]


def _forward(query: Any, pair: Any, fused: bool) -> tuple[Any, Any]:
    ring, passed = query.shape[1], pair
    other = _kernel("ring_other", _attend_other, fused=fused)

    def step(carry: tuple[Any, Partial], t: Any) -> tuple[tuple[Any, Partial], None]:
        pair, found = carry
        found = _join(found, other(query, pair, t))
        return (_pass_on(pair), found), None

    found = _kernel("ring_own", _attend_own, fused=fused, work=0.5)(query, pair)
    if ring > 1:
        (passed, found), _ = jax.lax.scan(step, (_pass_on(pair), found), jnp.arange(1, ring - 1))
        found = _join(found, other(query, passed, ring - 1))
    result = found[0].astype(query.dtype)
    return result, (query, pair, result, found[1])


def _backward(fused: bool, residuals: Any, arriving: Any) -> tuple[Any, Any]:
    query, pair, result, log_sum = residuals
    ring = query.shape[1]
    with jax.named_scope("ring_delta"):
        delta = _swap(jnp.sum(arriving.astype(jnp.float32) * result.astype(jnp.float32), -1))
    rows = query, arriving, log_sum, delta
    other = _kernel("ring_other_gradient", _other_gradient, fused=fused)

    def step(carry: tuple[Any, Any, Any], t: Any) -> tuple[tuple[Any, Any, Any], None]:
        pair, behind, found = carry
        for_query, for_pair = other(rows, pair, t)
        return (_pass_on(pair), _pass_on(behind) + for_pair, found + for_query), None

    found, behind = _kernel("ring_own_gradient", _own_gradient, fused=fused, work=0.5)(rows, pair)
    if ring > 1:
        (pair, behind, found), _ = jax.lax.scan(step, (_pass_on(pair), behind, found), jnp.arange(1, ring - 1))
        for_query, for_pair = other(rows, pair, ring - 1)
        found, behind = found + for_query, _pass_on(_pass_on(behind) + for_pair)
    return found.astype(query.dtype), behind


_attend.defvjp(_forward, _backward)


def _kernel(name: str, compute: Callable[..., Any], *, fused: bool, work: float = 1.0) -> Callable[..., Any]:
    """`compute` in its scope; as one hand-written kernel if `fused`. (Checkpointed: else a scan over layers would make masks once, as large
    as all scores, and keep them.)"""

    def call(*operands: Any) -> Any:
        with fused_kernel(name, work=work) if fused else jax.named_scope(name):
            return jax.checkpoint(compute)(*operands)

    return call


def _pass_on(x: Any) -> Any:
    """What each block has, given to the next one."""
    with jax.named_scope("pass_on"):
        return jnp.roll(x, 1, axis=1)


def _swap(x: Any) -> Any:
    """[..., h, g, c] from [..., c, h, g]."""
    return jnp.moveaxis(x, -3, -1)


def _attend_own(query: Any, pair: Any) -> Partial:
    """Step 0: a block's queries and its own keys. Its two chunks are in order, so the mask is that of a sequence."""
    scores = _own_scores(query, pair[:, :, 0])
    log_sum = jax.nn.logsumexp(scores, -1)
    mean = jnp.einsum("brhgct,brthk->brchgk", jnp.exp(scores - log_sum[..., None]).astype(query.dtype), _flat(pair[:, :, 1]))
    halves = log_sum.reshape(*log_sum.shape[:-1], 2, -1)
    return mean.reshape(query.shape).astype(jnp.float32), jnp.moveaxis(halves, -2, 2)


def _own_scores(query: Any, key: Any) -> Any:
    """[b, r, h, g, positions of the block, the same] float32."""
    scores = jnp.einsum("brchgk,brthk->brhgct", _flat(query), _flat(key), preferred_element_type=jnp.float32) * query.shape[-1] ** -0.5
    places = jnp.arange(scores.shape[-1])
    return jnp.where(places[:, None] >= places[None, :], scores, _NO_KEYS)


def _flat(x: Any) -> Any:
    """[b, r, positions of the block, ...] from [b, r, p, c, ...]."""
    return x.reshape(*x.shape[:2], -1, *x.shape[4:])


def _own_gradient(rows: tuple[Any, ...], pair: Any) -> tuple[Any, Any]:
    query, arriving, log_sum, delta = rows
    log_sum, delta = (jnp.moveaxis(each, 2, -2).reshape(*each.shape[:2], *each.shape[3:5], -1)[..., None] for each in (log_sum, delta))
    shares = jnp.exp(_own_scores(query, pair[:, :, 0]) - log_sum)
    by_share = jnp.einsum("brchgk,brthk->brhgct", _flat(arriving), _flat(pair[:, :, 1]), preferred_element_type=jnp.float32)
    by_score = (shares * (by_share - delta) * query.shape[-1] ** -0.5).astype(query.dtype)
    for_query = jnp.einsum("brhgct,brthk->brchgk", by_score, _flat(pair[:, :, 0])).astype(jnp.float32)
    for_key = jnp.einsum("brhgct,brchgk->brthk", by_score, _flat(query))
    for_value = jnp.einsum("brhgct,brchgk->brthk", shares.astype(query.dtype), _flat(arriving))
    return for_query.reshape(query.shape), jnp.stack([for_key, for_value], 2).reshape(pair.shape)


def _attend_other(query: Any, pair: Any, t: Any) -> Partial:
    """Step t, for both chunks of queries; one that sees no key there has a sum of nothing."""
    before = _before(query.shape[1], t)
    key, value = (_of_keys(pair[:, :, each], before) for each in range(2))
    scores = _scores(_of_queries(query, before), key)
    log_sum = jax.nn.logsumexp(scores, -1)
    mean = jnp.einsum("brphgct,brpthk->brpchgk", jnp.exp(scores - log_sum[..., None]).astype(query.dtype), value)
    late, either = ((mean[:, :, product], log_sum[:, :, product]) for product in range(2))
    both = _join(late, either)
    halves = [_choose(before, one, other) for one, other in zip((*either, *late), (*_nothing(either), *both), strict=True)]
    return jnp.stack([halves[0], halves[2]], 2).astype(query.dtype), jnp.stack([halves[1], halves[3]], 2)


def _other_gradient(rows: tuple[Any, ...], pair: Any, t: Any) -> tuple[Any, Any]:
    before = _before(pair.shape[1], t)
    query, arriving, log_sum, delta = (_of_queries(each, before) for each in rows)
    key, value = (_of_keys(pair[:, :, each], before) for each in range(2))
    shares = jnp.exp(_scores(query, key) - log_sum[..., None])
    by_share = jnp.einsum("brpchgk,brpthk->brphgct", arriving, value, preferred_element_type=jnp.float32)
    by_score = (shares * (by_share - delta[..., None]) * query.shape[-1] ** -0.5).astype(query.dtype)
    for_query = jnp.einsum("brphgct,brpthk->brpchgk", by_score, key)
    for_key = jnp.einsum("brphgct,brpchgk->brpthk", by_score, query)
    for_value = jnp.einsum("brphgct,brpchgk->brpthk", shares.astype(query.dtype), arriving)
    late, either = (for_query[:, :, product] for product in range(2))
    halves = jnp.stack([_choose(before, either, 0), late + _choose(before, 0, either)], 2)
    return halves, jnp.stack([_to_halves_of_keys(each, before) for each in (for_key, for_value)], 2)


def _scores(query: Any, key: Any) -> Any:
    """[b, r, products, h, g, c, t] float32."""
    return jnp.einsum("brpchgk,brpthk->brphgct", query, key, preferred_element_type=jnp.float32) * query.shape[-1] ** -0.5


def _before(ring: int, t: Any) -> Any:
    """Whether what each block has in step t comes from before it: bool[r]."""
    return jnp.arange(ring) >= t


def _choose(before: Any, one: Any, other: Any) -> Any:
    """[b, r, ...], of each block one or the other."""
    rank = max(jnp.ndim(one), jnp.ndim(other))
    return jnp.where(before.reshape(1, -1, *[1] * (rank - 2)), one, other)


def _of_queries(x: Any, before: Any) -> Any:
    """[b, r, p, ...] as the rows of both products: the late chunk, and the early one where it sees keys."""
    early, late = x[:, :, 0], x[:, :, 1]
    return jnp.stack([late, _choose(before, early, late)], 2)


def _of_keys(x: Any, before: Any) -> Any:
    """[b, r, p, ...] as the columns of both products: the early chunk, and the late one where it is seen."""
    early, late = x[:, :, 0], x[:, :, 1]
    return jnp.stack([early, _choose(before, early, late)], 2)


def _to_halves_of_keys(x: Any, before: Any) -> Any:
    """What both products have of each chunk: `_of_keys` transposed."""
    early, either = x[:, :, 0], x[:, :, 1]
    return jnp.stack([early + _choose(before, either, 0), _choose(before, 0, either)], 2)


def _nothing(found: Partial) -> Partial:
    return jnp.zeros_like(found[0]), jnp.full_like(found[1], _NO_KEYS)


def _join(one: Partial, other: Partial) -> Partial:
    """Attention to the keys of both."""
    log_sum = jnp.logaddexp(one[1], other[1])
    shares = (jnp.moveaxis(jnp.exp(each[1] - log_sum), -1, -3)[..., None] for each in (one, other))
    return sum(share * each[0] for share, each in zip(shares, (one, other), strict=True)), log_sum
