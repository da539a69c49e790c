"""Pipelining as tensor sharding: all stages at once, their inputs in a buffer that shifts by one stage an iteration (GSPMD, Xu et al. 2021,
section 3.3; lingvo `LayerwiseShardablePipelinedLayer`, praxis, MaxText).

Letters: S stages, M micro-batches, R repeats (times a micro-batch goes round), q = ceil(M / S), N = q S, T iterations, t the present one,
u = t - s how long stage s has been at work: it does micro-batch u mod N in repeat u div N.

    state   [S, ...]      what each stage works on
    stream  [S, q, ...]   micro-batches still to enter, and those done: each device holds q of them, none holds all
    store   [S, N - S, .] of a repeat but the last, what is done waits here until the next one begins

    t        0  1  2  3  4      S = 2, M = 4, R = 1
    stage 0  0  1  2  3  .
    stage 1  .  0  1  2  3

An iteration shifts the buffer (a collective permute where the first dimension is sharded), puts the next micro-batch in front, and runs
`vmap(stage)`. The stream turns by one stage each time a slot is used, so that stage 0 always finds its next micro-batch with itself, and
the last stage's results go back where inputs were. What a stage does in the bubble, u < 0 or beyond, is masked in both passes: no number
made there, NaN or not, reaches an output or a gradient.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Stage = Callable[[Any, Any], Any]
Tree = Any


def shifting_buffer(
    stage: Stage,
    weights: Tree,
    inputs: Tree,
    *,
    stages: int,
    repeats: int = 1,
    remat: bool = True,
    place_on_stages: Callable[[Tree], Tree] = lambda tree: tree,
) -> Tree:
    """The result of all stages on `inputs`, leaves [M, ...], in the same order.

    - `stage(weights, x) -> x`: one stage of one repeat on one micro-batch; shapes and types do not change;
    - `weights`: leaves [S, R, ...];
    - `remat`: a stage's backward pass recomputes its forward pass;
    - `place_on_stages`: shards a tree of leaves [S, ...] over the stages' devices, for instance by
      `with_sharding_constraint`.
    """
    count = jax.tree.leaves(inputs)[0].shape[0]
    slots = -(-count // stages)
    padded = slots * stages
    stream = place_on_stages(jax.tree.map(partial(_arrange_rows, stages=stages, slots=slots), inputs))
    weights = place_on_stages(weights)
    step = _mask_invalid(_select_repeat(stage, remat=remat))
    numbers = jnp.arange(stages)
    delay = padded - stages
    store = jax.tree.map(lambda leaf: jnp.zeros((stages, delay, *leaf.shape[2:]), leaf.dtype), stream) if repeats > 1 and delay else None

    def iterate(carry: Tree, t: Any) -> tuple[Tree, None]:
        state, store, stream = carry
        done = t - numbers
        valid = (done >= 0) & (done < repeats * padded) & (done % padded < count)
        shifted = place_on_stages(jax.tree.map(lambda leaf: jnp.roll(leaf, 1, axis=0), state))
        input_activations = jax.tree.map(lambda leaf: _read_slot(leaf, t % slots), stream)
        again = shifted
        if store is not None:
            again = jax.tree.map(lambda leaf: _read_slot(leaf, t % delay), store)
            store = place_on_stages(jax.tree.map(lambda leaf, new: _write_slot(leaf, new, t % delay), store, shifted))
        front = _select(t < padded, input_activations, again)
        state = place_on_stages(_select(numbers == 0, front, shifted))
        state = place_on_stages(jax.vmap(step)(weights, state, jnp.clip(done // padded, 0, repeats - 1), valid))
        rotated = jax.tree.map(lambda leaf: jnp.roll(leaf, -1, axis=0), input_activations)
        stream = jax.tree.map(lambda leaf, new: _write_slot(leaf, new, t % slots), stream, _select(numbers == stages - 1, state, rotated))
        return (state, store, place_on_stages(stream)), None

    iterations = iterations_of(stages, count, repeats)
    state = jax.tree.map(lambda leaf: leaf[:, 0], stream)
    (_, _, stream), _ = jax.lax.scan(iterate, (state, store, stream), jnp.arange(iterations))
    return jax.tree.map(lambda leaf: _restore_order(leaf, count, iterations), stream)


def iterations_of(stages: int, micro_batches: int, repeats: int = 1) -> int:
    """The number of iterations; every device works in every iteration.

    >>> iterations_of(4, 8), iterations_of(4, 8, repeats=2), iterations_of(4, 2, repeats=2)
    (11, 19, 9)
    """
    return (repeats - 1) * -(-micro_batches // stages) * stages + micro_batches + stages - 1


def _select_repeat(stage: Stage, *, remat: bool) -> Callable[[Any, Any, Any], Any]:
    """`stage` of `(weights of all repeats, x, repeat)`; weights are stored once, and a repeat's are sliced again."""

    def run(weights: Any, x: Any, repeat: Any) -> Any:
        repeat_weights = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, repeat, axis=0, keepdims=False), weights)
        return stage(repeat_weights, x)

    def run_only(weights: Any, x: Any, _: Any) -> Any:
        return stage(jax.tree.map(lambda leaf: leaf[0], weights), x)

    def run_repeat(weights: Any, x: Any, repeat: Any) -> Any:
        return (run_only if jax.tree.leaves(weights)[0].shape[0] == 1 else run)(weights, x, repeat)

    return jax.checkpoint(run_repeat, prevent_cse=False, policy=None if remat else _is_saved)


def _is_saved(primitive: Any, *_: Any, **__: Any) -> bool:
    """Return whether to save a value: all but the sliced weights, which would be stored once per iteration."""
    return primitive.name not in ("dynamic_slice", "squeeze")


def _mask_invalid(stage: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any, Any], Any]:
    """`stage` with an argument `valid`; gradients of invalid calls are zero, whatever the stage computes."""

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def run(weights: Any, x: Any, repeat: Any, valid: Any) -> Any:
        del valid
        return stage(weights, x, repeat)

    def forward(weights: Any, x: Any, repeat: Any, valid: Any) -> tuple[Any, Any]:
        result, pull = jax.vjp(lambda weights, x: stage(weights, x, repeat), weights, x)
        return result, (pull, valid)

    def backward(residuals: Any, arriving: Any) -> tuple[Any, Any, None, None]:
        pull, valid = residuals
        weights, x = jax.tree.map(lambda leaf: leaf if leaf.dtype == jax.dtypes.float0 else jnp.where(valid, leaf, 0), pull(arriving))
        return weights, x, None, None

    run.defvjp(forward, backward)
    return run


def _arrange_rows(leaf: Any, *, stages: int, slots: int) -> Any:
    """[M, ...] as [S, q, ...], padded with the last micro-batch."""
    missing = stages * slots - leaf.shape[0]
    if missing:
        leaf = jnp.concatenate([leaf, jnp.broadcast_to(leaf[-1:], (missing, *leaf.shape[1:]))])
    return leaf.reshape(stages, slots, *leaf.shape[1:])


def _restore_order(stream: Any, count: int, iterations: int) -> Any:
    """The results in order, read from where the stream has rotated them."""
    stages, slots = stream.shape[:2]
    finished_at = np.arange(count) + iterations - count
    rows, places = stages - 1 - (iterations - 1 - finished_at) // slots, finished_at % slots
    if count == stages * slots:  # rows are in place: no communication
        order = places.reshape(stages, slots)[0]
        stream = jnp.roll(stream, -int(order[0]), axis=1)
        return stream.reshape(count, *stream.shape[2:])
    return stream[rows, places]


def _read_slot(leaf: Any, slot: Any) -> Any:
    return jax.lax.dynamic_index_in_dim(leaf, slot, axis=1, keepdims=False)


def _write_slot(leaf: Any, new: Any, slot: Any) -> Any:
    return jax.lax.dynamic_update_index_in_dim(leaf, new, slot, axis=1)


@partial(jax.checkpoint, prevent_cse=False)
def _select(flags: Any, one: Tree, other: Tree) -> Tree:
    """Select leaves [S, ...] by one flag, or one per stage. (Checkpointed, to keep flags instead of full masks.)"""
    return jax.tree.map(lambda a, b: jnp.where(jnp.reshape(flags, jnp.shape(flags) + (1,) * (a.ndim - jnp.ndim(flags))), a, b), one, other)
