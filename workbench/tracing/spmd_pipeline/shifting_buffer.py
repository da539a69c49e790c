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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workbench.core.derived_value_cache import cache_with_owner
from workbench.errors import PipelineError
from workbench.tracing.stage_partition.block_programs import block_tasks
from workbench.tracing.stage_partition.partition_network import StageFunction, StagePartition, partition_network
from workbench.tracing.stage_partition.stage_tasks import StageTasks
from workbench.tracing.stage_partition.trace_network import Network

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


# The run of equal layers in a network, as one function over stacked weights: the basis of an SPMD pipeline.
#
# Before the run is the prefix (or nothing: the first layer reads the batch where the others read the previous layer),
# after it the suffix. A layer takes the previous layer's output (`carry`) and the prefix's outputs common to all layers
# (`shared`: a mask, positions). Layers are equal if the texts of their jaxprs are.


Arrays = Sequence[Any]
Name = tuple[str, int]  # ("batch", leaf of it) or ("value", of the cut)


@dataclass(frozen=True)
class HomogeneousLayers:
    """`layer(param_slices, batch, shared, carry) -> carry`, all flat tuples.

    - `prefix` (`None` if the run begins the network), `suffix`; `param_slices`: the numbers of each layer's parameters,
      in one order;
    - `batch`: numbers of the batch leaves that every layer reads;
    - `shared`: numbers of the partition's values that all layers read; `carry`: the first layer's input; `last`: the
      last one's outputs.
    """

    partition: StagePartition
    prefix: StageFunction | None
    layer: Callable[[Arrays, Arrays, Arrays, Arrays], tuple[Any, ...]]
    param_slices: tuple[tuple[int, ...], ...]
    batch: tuple[int, ...]
    shared: tuple[int, ...]
    carry: tuple[Name, ...]
    last: tuple[int, ...]

    @property
    def suffix(self) -> StageFunction:
        return self.partition.virtual_stages[-1]


@cache_with_owner
def homogeneous_layers(network: Network) -> HomogeneousLayers:
    """The longest run of equal layers. Raises `PipelineError` if there is none, or it cannot be chained."""
    begin, end = _find_longest_run(network)
    partition = partition_network(network, range(max(begin, 1), end + 1))
    prefix, layers = (partition.virtual_stages[0], partition.virtual_stages[1:-1]) if begin else (None, partition.virtual_stages[:-1])
    batch = layers[1].batch
    shared = tuple(value for value in layers[1].input_activations if value not in layers[0].output_activations)
    carries = [_sort_by_type(partition, virtual_stage, _list_carry(virtual_stage, batch, shared)) for virtual_stage in layers]
    outputs = [
        _sort_by_type(partition, virtual_stage, [("value", value) for value in virtual_stage.output_activations])
        for virtual_stage in layers
    ]
    for virtual_stage, carry, earlier in zip(layers[1:], carries[1:], outputs, strict=False):
        if set(carry) != set(earlier) or not set(shared) <= set(virtual_stage.input_activations):
            raise _unequal_error(network, virtual_stage, "has other inputs or outputs than the block before it")
    for virtual_stage in layers[:-1]:
        if any(partition.values[value].readers != (virtual_stage.number + 1,) for value in virtual_stage.output_activations):
            raise _unequal_error(network, virtual_stage, "has an output that is not read by the next block")
    common = (*(("batch", leaf) for leaf in batch), *(("value", value) for value in shared))
    calls = [_make_call(virtual_stage, (*common, *carry), out) for virtual_stage, carry, out in zip(layers, carries, outputs, strict=True)]
    texts = [
        _jaxpr_text(partition, virtual_stage, call, (batch, shared, carry))
        for virtual_stage, call, carry in zip(layers, calls, carries, strict=True)
    ]
    for virtual_stage, text in zip(layers, texts, strict=True):
        if text != texts[0]:
            raise _unequal_error(network, virtual_stage, "computes something other than the first block")
    last = tuple(value for _, value in outputs[-1])
    return HomogeneousLayers(partition, prefix, calls[0], tuple(stage.param_slices for stage in layers), batch, shared, carries[0], last)


def _list_carry(virtual_stage: StageFunction, batch: Sequence[int], shared: Sequence[int]) -> list[Name]:
    """The values that only this layer reads: from the previous layer, or from the batch for the first."""
    from_batch = [("batch", leaf) for leaf in virtual_stage.batch if leaf not in batch]
    return [*from_batch, *(("value", value) for value in virtual_stage.input_activations if value not in shared)]


def _find_longest_run(network: Network) -> tuple[int, int]:
    """The first block of the longest run of blocks with equal keys and a successor, and the block after it."""
    keys = [(block.layer_key, number) for number, block in enumerate(block_tasks(network))]
    runs = [[number for _, number in run] for _, run in groupby(keys, key=lambda pair: pair[0])]
    inner = [[number for number in run if number < len(keys) - 1] for run in runs]
    longest = max(inner, key=len, default=[])
    if len(longest) < 2:
        paths = ", ".join(f"`{path}`" for path in network.paths[:8])
        raise PipelineError(
            f"Engine `spmd` runs equal layers in lockstep; `{network.name}` has no two equal blocks in a row before its last one "
            f"({paths}{' and more' if len(network.paths) > 8 else ''}).",
            ["use engine:mpmd, which supports different stages"],
        )
    return longest[0], longest[-1] + 1


def _sort_by_type(partition: StagePartition, virtual_stage: StageFunction, names: Sequence[Name]) -> tuple[Name, ...]:
    """The carry ordered by shape and type; raises `PipelineError` for two values of one type."""
    avals = {name: _aval(partition, name) for name in names}
    types = {name: f"{aval.dtype}{list(aval.shape)}" for name, aval in avals.items()}
    if len(set(types.values())) < len(types):
        raise _unequal_error(partition.network, virtual_stage, f"passes on several values of one shape ({', '.join(types.values())})")
    return tuple(sorted(names, key=types.__getitem__))


def _aval(partition: StagePartition, name: Name) -> Any:
    kind, number = name
    return partition.network.flat.batch[number].aval if kind == "batch" else partition.values[number].aval


def _make_call(
    virtual_stage: StageFunction, names: Sequence[Name], made: Sequence[Name]
) -> Callable[[Arrays, Arrays, Arrays, Arrays], tuple[Any, ...]]:
    reads = [*(("batch", leaf) for leaf in virtual_stage.batch), *(("value", value) for value in virtual_stage.input_activations)]

    def layer(param_slices: Arrays, batch: Arrays, common: Arrays, carry: Arrays) -> tuple[Any, ...]:
        value_by_name = dict(zip(names, (*batch, *common, *carry), strict=True))
        results = virtual_stage.call(*param_slices, *(value_by_name[name] for name in reads))
        by_value = dict(zip(virtual_stage.output_activations, results, strict=True))
        return tuple(by_value[value] for _, value in made)

    return layer


def _jaxpr_text(
    partition: StagePartition,
    virtual_stage: StageFunction,
    call: Callable[..., Any],
    given: tuple[Sequence[int], Sequence[int], Sequence[Name]],
) -> str:
    batch, shared, carry = given
    names = [[("batch", leaf) for leaf in batch], [("value", value) for value in shared], carry]
    avals = [[_aval(partition, name) for name in group] for group in names]
    specs = [[jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in group] for group in avals]
    closed = jax.make_jaxpr(call)(StageTasks(partition, virtual_stage).param_slices, *specs)
    return f"{closed.jaxpr}{[getattr(const, 'shape', ()) and const.tolist() for const in closed.consts]}"


def _unequal_error(network: Network, virtual_stage: StageFunction, why: str) -> PipelineError:
    return PipelineError(
        f"Engine `spmd` runs equal layers in step, and `{virtual_stage.blocks[0]}` of `{network.name}` {why}.",
        ["use engine:mpmd, which supports different stages", "scan the layers over stacked weights"],
    )
