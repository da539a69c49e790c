"""Gradients as partial sums, one for each part of a micro-batch: together they are the gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import pipelines
from workbench.models import build
from workbench.tracing.grad_accumulation.accumulate_gradients import split_task
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups, split_gradients
from workbench.tracing.stage_partition.partition_network import partition_network
from workbench.tracing.stage_partition.stage_tasks import StageTasks
from workbench.tracing.stage_partition.trace_network import network_of, partition_loss

pytestmark = pytest.mark.compile

MODELS = {
    **pipelines.ALL,
    "gpt": lambda: build("gpt", layers=2, seq=16, batch=8),
    "mixture": lambda: build("mixture"),
    "t5": lambda: build("t5"),
    "unet": lambda: build("unet", batch=8),
}
AT_ONCE = {"batch_norm": 6, "t5": 2, "unet": 10}  # moving averages, tables of relative positions (lookups without the batch), convolutions


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


@pytest.mark.third
@pytest.mark.parametrize("name", MODELS)
def test_partial_sums_together_are_the_gradient_and_all_else_is_as_before(name):
    stage = whole(network_of(MODELS[name](), 2))
    task = stage.backward(recompute=True)
    split, places = split_task(stage, task, DataParallelGroups(("data",), 2, frozenset(stage.virtual_stage.param_slices)))
    assert len(stage.trained) - len(places) == AT_ONCE.get(name, 0)
    values = list(values_of(task.specs))
    wholes = jax.jit(task.call)(*values)
    rounding = 1e-6 * max(float(jnp.abs(each).max()) for each in wholes)  # a bias before a normalisation: a small sum of large numbers
    for (group, place), plain, found in zip(task.gives, wholes, jax.jit(split.call)(*values), strict=True):
        is_split = group == "gradient" and place in places
        assert found.shape == ((2, *plain.shape) if is_split else plain.shape)
        scale = float(jnp.abs(plain).max()) or 1.0
        np.testing.assert_allclose(found.sum(axis=0) if is_split else found, plain, rtol=0, atol=1e-4 * scale + rounding)


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
    ],
    ids=["product", "transposed", "sliced", "looked up", "summed"],
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
