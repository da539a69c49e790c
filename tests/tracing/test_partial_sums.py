"""Gradients as partial sums, one for each part of a micro-batch: together they are the gradient."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core as jex_core
from jax.extend.core import primitives

from tests.support import pipelines
from tests.support.partitioned_losses import partition_loss
from workbench.core.precision import Precision
from workbench.core.remat import Remat
from workbench.models import build
from workbench.tracing.grad_accumulation.accumulate_gradients import split_task
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups, split_gradients
from workbench.tracing.stage_partition.block_programs import block_tasks
from workbench.tracing.stage_partition.partition_network import partition_network
from workbench.tracing.stage_partition.stage_tasks import StageTasks
from workbench.tracing.stage_partition.trace_network import network_of

pytestmark = pytest.mark.compile


def recomputed(remat):
    return build("gpt", layers=2, seq=16, batch=8).variant(remat=Remat.parse(remat), precision=Precision())


POLICIES = jax.checkpoint_policies
CHECKPOINTED = {
    "checkpointed keeping dots": lambda: pipelines.checkpointed(POLICIES.dots_with_no_batch_dims_saveable),
    "checkpointed keeping names": lambda: pipelines.checkpointed(POLICIES.save_only_these_names("mixed")),
    "checkpointed in a loop": lambda: pipelines.checkpointed(prevent_cse=False),
    "checkpointed behind a barrier of its own": lambda: pipelines.checkpointed(prevent_cse=(True, False, True)),
    **{f"gpt {remat}": partial(recomputed, remat=remat) for remat in ("dots_no_batch", "full", "recompute:attention")},
    **{f"decoder {each}": partial(build, "decoder", recompute=each) for each in ("full", "attention", "replay", "alternate")},
}
MODELS = {
    **pipelines.ALL,
    **CHECKPOINTED,
    "gpt": lambda: build("gpt", layers=2, seq=16, batch=8),
    "mixture": lambda: build("mixture"),
    "t5": lambda: build("t5"),
    "unet": lambda: build("unet", batch=8),
}
AT_ONCE = {"batch_norm": 6, "unet": 10}  # moving averages, convolutions


def whole(network):
    partition = partition_network(network, ())
    return StageTasks(partition, partition.virtual_stages[0])


def values_of(specs):
    random = np.random.default_rng(0)
    for spec in specs:
        if jax.dtypes.issubdtype(spec.dtype, jax.dtypes.prng_key):
            yield jax.random.key(0)
        elif jnp.issubdtype(spec.dtype, jnp.floating):
            yield (0.1 * random.standard_normal(spec.shape)).astype(spec.dtype)
        else:
            yield np.zeros(spec.shape, spec.dtype)


ROUNDING = {"unet": 2e-4}
"""Of the largest gradient. A bias before a normalisation has a gradient of nearly 0, a sum over all voxels of large numbers."""


@pytest.mark.share(5)
@pytest.mark.parametrize("name", MODELS)
def test_partial_sums_together_are_the_gradient_and_all_else_is_as_before(name):
    stage = whole(network_of(MODELS[name](), 2))
    task = stage.backward(recompute=True)
    split, places = split_task(stage, task, DataParallelGroups(("data",), 2, frozenset(stage.virtual_stage.param_slices)))
    assert len(stage.trained) - len(places) == AT_ONCE.get(name, 0)
    values = list(values_of(task.specs))
    wholes = jax.jit(task.call)(*values)
    rounding = ROUNDING.get(name, 1e-6) * max(float(jnp.abs(each).max()) for each in wholes)
    for (group, place), plain, found in zip(task.gives, wholes, jax.jit(split.call)(*values), strict=True):
        is_split = group == "gradient" and place in places
        assert found.shape == ((2, *plain.shape) if is_split else plain.shape)
        scale = float(jnp.abs(plain).max()) or 1.0
        np.testing.assert_allclose(found.sum(axis=0) if is_split else found, plain, rtol=0, atol=1e-4 * scale + rounding)


def checkpoints_in(jaxpr, depth=0):
    """The policy and barrier of each checkpoint, how deep in others it is, and how many values it returns."""
    for eqn in jaxpr.eqns:
        is_checkpoint = eqn.primitive is primitives.remat_p
        if is_checkpoint:
            yield depth, eqn.params["policy"], eqn.params["differentiated"], eqn.params["prevent_cse"], len(eqn.outvars)
        for inner in jex_core.jaxprs_in_params(eqn.params):
            yield from checkpoints_in(inner, depth + is_checkpoint)


@pytest.mark.share(3)
@pytest.mark.parametrize("recompute", [True, False])
@pytest.mark.parametrize("name", ["checkpointed", *CHECKPOINTED])
def test_what_is_computed_again_still_is(name, recompute):
    """By the same checkpoints, behind the same barriers, from the same residuals."""
    stage = whole(network_of(MODELS[name](), 2))
    task = stage.backward(recompute=recompute)
    split, places = split_task(stage, task, DataParallelGroups(("data",), 2, frozenset(stage.virtual_stage.param_slices)))
    assert places == set(stage.trained)
    before, after = (jax.make_jaxpr(each.call)(*task.specs).jaxpr for each in (task, split))
    checkpoints = list(checkpoints_in(after))
    assert checkpoints == list(checkpoints_in(before))
    barriers, as_before = (jax.jit(each.call).lower(*task.specs).as_text().count("optimization_barrier") for each in (split, task))
    assert barriers == as_before
    assert checkpoints or barriers
    assert split.specs == task.specs


@pytest.mark.share(5)
@pytest.mark.parametrize("recompute", [True, False])
@pytest.mark.parametrize("name", ["skips", "masked", "checkpointed", *CHECKPOINTED])
def test_halves_of_a_backward_pass_hand_over_partial_sums(name, recompute):
    """Of a layer that is computed again, the first half makes the gradients of weights too."""
    stage = whole(network_of(MODELS[name](), 2))
    halves = stage.backward_input(recompute=recompute), stage.backward_weight(recompute=recompute)
    groups = DataParallelGroups(("data",), 2, frozenset(stage.virtual_stage.param_slices))
    split = [split_task(stage, half, groups) for half in halves]
    assert [places for _, places in split] == [frozenset(), set(stage.trained)]
    backward = stage.backward(recompute=recompute)
    known = dict(zip(backward.reads, values_of(backward.specs), strict=True))
    for half, _ in split:
        arguments = [known[each] for each in half.reads]
        assert [(each.shape, each.dtype) for each in arguments] == [(each.shape, each.dtype) for each in half.specs]
        known |= dict(zip(half.gives, jax.jit(half.call)(*arguments), strict=True))
    expected = dict(zip(backward.gives, jax.jit(backward.call)(*(known[each] for each in backward.reads)), strict=True))
    for place in stage.trained:
        plain, found = expected["gradient", place], known["gradient", place]
        assert found.shape == (2, *plain.shape)
        np.testing.assert_allclose(found.sum(axis=0), plain, rtol=0, atol=1e-4 * (float(jnp.abs(plain).max()) or 1.0))


def test_a_block_whose_parameters_no_device_has_whole_is_traced_once_for_any_number_of_groups():
    first, second, *_ = block_tasks(network_of(pipelines.chain(), 2))
    groups = [DataParallelGroups(("data",), count, frozenset(second.stage.virtual_stage.param_slices)) for count in (2, 4)]
    divided, whole = ([each.backward_program(groups[i], recompute=False, add_separately=False) for i in (0, 1)] for each in (first, second))
    assert divided[0] is divided[1]
    assert whole[0] is not whole[1]


def test_what_every_device_has_not_whole_is_left_as_it_is():
    stage = whole(network_of(pipelines.chain(), 2))
    task = stage.backward(recompute=True)
    _, places = split_task(stage, task, DataParallelGroups(("data",), 2, frozenset(stage.virtual_stage.param_slices[:3])))
    assert places == {0, 1, 2}
    assert split_gradients(task, 3, 4, stage.trained) == (task, frozenset())  # three do not divide four


@pytest.mark.parametrize(
    "last",
    [
        lambda x, w: (jnp.exp(x @ w) - 1.0) / 3.0,
        lambda x, w: jnp.tanh(x @ w.T) * 2.0,
        lambda x, w: x @ jnp.concatenate([w[:, :4], -w[:, 4:]], axis=1),
        lambda x, w: jnp.take(w, jnp.argmax(x, axis=1), axis=0),
        lambda x, w: x * w.sum(axis=0) + w.mean(),
        lambda x, w: x @ jnp.where(w > 0.0, w, 0.5),
        lambda x, w: x @ jax.lax.dynamic_slice(w, (jnp.argmax(w[0]), 0), (8, 8)),
        lambda x, w: x @ w[jnp.argsort(w[0])],
        lambda x, w: x @ jnp.flip(jax.lax.reduce_precision(w, 8, 23)),
        lambda x, w: x @ (w @ w.T),
        lambda x, w: jnp.subtract(*jax.lax.optimization_barrier((x @ w, w.sum(axis=0)))),
        lambda x, w: x @ jax.checkpoint(jnp.sin)(w),
        lambda x, w: jax.lax.scan(lambda h, _: (jnp.tanh(h @ w), h[:, 0]), x, None, length=3)[0],
        lambda x, w: jax.lax.scan(jax.checkpoint(lambda h, each: (jnp.tanh(h @ each), h.sum())), x, w.reshape(2, 4, 8).repeat(2, 1))[0],
        lambda x, w: jax.lax.scan(lambda h, _: (jnp.tanh(h * w.sum()), None), x, None, length=3)[0],
        lambda x, w: jnp.moveaxis(jax.lax.map(lambda each: each @ w, jnp.stack([x, jnp.cos(x)])), 0, 1).reshape(4, 16),
        jax.checkpoint(lambda x, w: jax.lax.scan(lambda h, each: (h * each + h @ w, None), x, w, reverse=True)[0]),
        jax.checkpoint(lambda x, w: jax.checkpoint(jnp.matmul)(jnp.cos(x), jax.nn.softmax(w))),
    ],
    ids=[
        *("product", "transposed", "sliced", "looked up", "summed", "masked", "dynamically sliced", "sorted", "rounded and reversed"),
        *("of a product", "behind a barrier", "recomputed apart"),
        *("in every iteration", "stacked by a loop", "of a number in a loop", "with no carry", "in a recomputed loop", "recomputed twice"),
    ],
)
def test_a_gradient_goes_on_from_its_sum_over_the_batch_part_by_part(last):
    def loss(params, batch):
        with jax.named_scope("layer"):
            return jnp.sin(last(batch["x"], params["w"])).sum()

    shape = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    stage = whole(partition_loss(loss, {"w": shape}, {"x": jax.ShapeDtypeStruct((4, 8), jnp.float32)}).network)
    task = stage.backward(recompute=True)
    split, places = split_gradients(task, 2, 4, stage.trained)
    values = list(values_of(task.specs))
    assert places == {0}
    np.testing.assert_allclose(split.call(*values)[0].sum(axis=0), task.call(*values)[0], rtol=1e-5, atol=1e-6)
