"""A micro-batch of a mixture of experts, and the update after it."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tests.support.residual_bytes import count_residual_bytes
from workbench.core.tensor import Role
from workbench.models.data import english_text
from workbench.models.mixture import mixture, mixture_stage, mixture_weights
from workbench.models.mixture.mixture import expert_parallel
from workbench.models.mixture.mixture_config import PRESETS
from workbench.public_plan import Plan

pytestmark = pytest.mark.compile

SMALL = replace(PRESETS["tiny"], layers=2, batch=2, seq=16)


def test_a_micro_batch_adds_the_gradients_of_the_loss_to_those_so_far():
    params = mixture_weights.init(jax.random.key(0), SMALL, scan=False)
    batch = english_text.batches(SMALL.batch, SMALL.seq)(0)
    loss, expected = jax.jit(jax.value_and_grad(mixture.make_loss(SMALL)))(params, batch)
    so_far = jax.tree.map(np.ones_like, params)
    step = mixture_stage.micro_batch(SMALL).step
    *sums, found = jax.jit(step.call)(*jax.tree.leaves((params, so_far, batch)))
    np.testing.assert_allclose(found, loss, rtol=1e-5)
    for ours, theirs in zip(sums, jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, 1 + theirs, rtol=1e-4, atol=1e-5)


def test_only_what_is_replicated_has_a_gradient_for_each_replica():
    program = mixture_stage.update(SMALL, replicas=4)
    gradients = [each for each in program.arguments if each.role is Role.GRADIENT]
    alone = {each.path for each in gradients if "replica" not in each.dims}
    assert alone == {"gradients/layers/0/experts/w1", "gradients/layers/0/experts/w2"}
    assert {each.shape[0] for each in gradients if each.path not in alone} == {4}


@pytest.mark.parametrize("preset", ["deepseek-v2", "deepseek-v3"])
def test_one_more_layer_keeps_what_its_kernels_read(preset):
    """In bfloat16: the stream twice and its two normalised forms; latents before and after theirs; queries, keys, values, attention's
    result; what the shared expert and the experts read and make, gates, values and their product. In four bytes what a router chooses, and
    of each place the token and its weight."""
    config = replace(PRESETS[preset], dense=0, batch=8)
    kept = [
        count_residual_bytes(Plan(_stage(replace(config, layers=layers)), "expert:8", expert_parallel(batch="expert"))) for layers in (1, 2)
    ]
    attention = config.heads * 2 * (config.d_query + config.d_value) + 2 * (config.q_rank + config.kv_rank) + config.d_rotary
    a_token = 4 * config.d_model + attention + 3 * config.d_shared
    places = config.experts * config.capacity
    routing = 4 * (config.experts * config.seq + 2 * places)
    expected = 2 * (a_token * config.seq + places * (config.d_model + 3 * config.d_expert)) + routing
    assert kept[1] - kept[0] == expected


def _stage(config):
    return mixture_stage.micro_batch(config, first=False, last=False)
