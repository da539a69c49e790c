"""FLOP, duplication and memory of programs with a `shard_map` are those of the same program without one."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import workbench as wb

MESH = jax.sharding.AbstractMesh((4, 2), ("data", "model"), (AxisType.Auto,) * 2)
BATCH, WIDTH, HIDDEN = 64, 32, 128
WHOLE = 2 * BATCH * WIDTH * HIDDEN  # FLOP of one product


def shaped(*shape):
    return jax.ShapeDtypeStruct(shape, "float32")


X, W1, W2 = shaped(BATCH, WIDTH), shaped(WIDTH, HIDDEN), shaped(HIDDEN, WIDTH)


def flops(function, *arguments):
    return wb.Plan(wb.trace(function, *arguments), "data:4 model:2", "").report().flops


def mapped(body, in_specs, out_specs, **options):
    return jax.shard_map(body, mesh=MESH, in_specs=in_specs, out_specs=out_specs, check_vma=False, **options)


def test_tensor_parallelism_written_by_hand_repeats_nothing():
    def body(x, w1, w2):
        return jax.lax.psum(jax.nn.relu(x @ w1) @ w2, "model")

    found = flops(mapped(body, (P("data"), P(None, "model"), P("model")), P("data")), X, W1, W2)
    assert found.unique == 2 * WHOLE
    assert found.per_device == 2 * WHOLE // 8
    assert found.duplication == 1


def test_what_every_device_computes_of_equal_operands_is_counted_once():
    found = flops(mapped(lambda x, w: x @ w, (P(), P()), P()), X, W1)
    assert found.unique == WHOLE
    assert found.duplication == 8


def test_a_product_of_what_was_gathered_along_an_axis_is_repeated_along_it():
    def body(x, w):
        return x @ jax.lax.all_gather(w, "model", axis=1, tiled=True)

    found = flops(mapped(body, (P("data"), P(None, "model")), P("data")), X, W1)
    assert found.unique == WHOLE
    assert found.duplication == 2


def test_the_turns_of_a_ring_differ_although_its_first_operands_do_not():
    def body(x, w):
        def turn(carried, _):
            part, total = carried
            return (jax.lax.ppermute(part, "model", [(0, 1), (1, 0)]), total + x @ w), None

        return jax.lax.scan(turn, (w, jnp.zeros((x.shape[0], w.shape[1]))), length=2)[0][1]

    found = flops(mapped(body, (P("data"), P()), P("data")), X, W1)
    assert found.unique == 2 * WHOLE  # `w` is whole in each turn: equal along `model`
    assert found.duplication == 2

    def turning(x, w):
        def turn(carried, _):
            part, total = carried
            return (jax.lax.ppermute(part, "model", [(0, 1), (1, 0)]), total + x @ part), None

        return jax.lax.scan(turn, (w, jnp.zeros((x.shape[0], w.shape[1]))), length=2)[0][1]

    found = flops(mapped(turning, (P("data"), P(None, "model")), P("data", "model")), X, W1)
    assert found.unique == 2 * WHOLE
    assert found.duplication == 1


def test_an_index_along_an_axis_makes_what_is_computed_differ():
    def body(x, w):
        return (x * jax.lax.axis_index("model")) @ w

    assert flops(mapped(body, (P("data"), P()), P("data")), X, W1).duplication == 1


def test_axes_that_are_not_manual_are_split_by_propagation():
    def body(x, w):
        return x @ w

    function = mapped(body, (P("data"), P()), P("data"), axis_names={"data"})
    program = wb.trace(function, X, W1, dims={"x": "row width", "w": "width hidden"})
    whole = wb.Plan(program, "data:4 model:2", "").report().flops
    assert (whole.unique, whole.duplication) == (WHOLE, 2)
    split = wb.Plan(program, "data:4 model:2", "hidden:model").report().flops
    assert (split.unique, split.duplication) == (WHOLE, 1)


@pytest.mark.parametrize("tier", ["planned", pytest.param("partitioned", marks=pytest.mark.compile)])
def test_what_reads_the_result_is_computed_on_shards_and_memory_is_that_of_shards(tier):
    matmul = mapped(lambda x, w: x @ w, (P("data"), P()), P("data"))
    by_hand = wb.trace(lambda x, w: jnp.tanh(matmul(x, w)) @ w.T, X, W1, dims={"x": "row width"})
    plain = wb.trace(lambda x, w: jnp.tanh(x @ w) @ w.T, X, W1, dims={"x": "row width"})
    ours, theirs = (wb.Plan(each, "data:4 model:2", "row:data").report(tier) for each in (by_hand, plain))
    assert ours.flops == theirs.flops
    assert ours.peak == theirs.peak
    assert ours.sent == theirs.sent


def test_a_gradient_step_is_counted_as_without_shard_map():
    def sharded(params, batch):
        def body(x, w1, w2):
            return jax.lax.psum(jnp.sum((jax.nn.relu(x @ w1) @ w2) ** 2), "data")

        run = jax.shard_map(body, mesh=MESH, in_specs=(P("data"), P(), P()), out_specs=P(), axis_names={"data"})
        return run(batch, *params)

    def plain(params, batch):
        return jnp.sum((jax.nn.relu(batch @ params[0]) @ params[1]) ** 2)

    ours, theirs = (flops(jax.grad(loss), (W1, W2), X) for loss in (sharded, plain))
    assert ours.unique == theirs.unique
    assert ours.duplication == 2  # along `model`, which nothing splits
