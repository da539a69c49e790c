"""Tasks of a stage: each is traced once, and says what it computes."""

import jax
import jax.numpy as jnp
import pytest

from tests.support.partitioned_losses import partition_loss
from workbench.tracing.jaxpr.equations import flops_of
from workbench.tracing.stage_partition.block_programs import block_tasks

PASSES = ("forward", "forward_keeping", "forward_and_backward")
HALVES = ("backward_input", "backward_weight", "backward")


@pytest.fixture(scope="module")
def blocks():
    def loss(params, batch):
        x = batch["x"]
        for i, weight in enumerate(params):
            with jax.named_scope(f"layer{i}"):
                x = jnp.tanh(x @ weight)
        return (x**2).mean()

    params = [jax.ShapeDtypeStruct((8, 8), jnp.float32)] * 3
    return block_tasks(partition_loss(loss, params, {"x": jax.ShapeDtypeStruct((4, 8), jnp.float32)}).network)


def tasks(block, *, recompute):
    return [
        *(getattr(block.stage, name) for name in PASSES),
        *(getattr(block.stage, name)(recompute=recompute) for name in HALVES),
    ]


@pytest.mark.parametrize("recompute", [False, True])
def test_what_a_task_computes_is_what_tracing_it_anew_finds(blocks, recompute):
    for block in blocks:
        for task in tasks(block, recompute=recompute):
            traced = jax.make_jaxpr(task.call)(*task.specs).jaxpr.eqns
            assert [flops_of(eqn) for eqn in task.equations] == [flops_of(eqn) for eqn in traced]


@pytest.mark.parametrize("recompute", [False, True])
def test_the_halves_of_a_backward_pass_are_traced_once(blocks, recompute, monkeypatch):
    stage = blocks[1].stage
    stage.backward(recompute=recompute), stage.backward_input(recompute=recompute)
    monkeypatch.setattr(jax, "make_jaxpr", lambda *_: pytest.fail("traced again"))
    assert stage.backward_weight(recompute=recompute) is stage.backward_weight(recompute=recompute)
