"""Few replicas stand for many where a micro-batch has the size of another dimension, if that makes no other program."""

from functools import cache

import jax
import jax.numpy as jnp
import pytest

import workbench as wb
from tests.support.search_bounds import EXACT, verify_bounds
from workbench.public_plan import Plan
from workbench.search.candidate_plans import with_schedule
from workbench.search.evaluator import Evaluator
from workbench.search.make_space import make_space

BATCH, SEQUENCE, WIDTH = 64, 8, 16
CONFUSED = 8  # micro-batches as large as the sequence is long
ORDERS = {"bsd": True, "dsb": False}
"""Orders of an activation's dimensions, and whether the batch is summed first where it is as large as the sequence."""


def training_step(order: str):
    @wb.layer
    def apply(weights, x):
        return jax.nn.relu(jnp.einsum(f"{order},df->{order.replace('d', 'f')}", x, weights))

    def loss(parameters, batch):
        x = jnp.einsum(f"bsd->{order}", batch["x"])
        for weights in parameters:
            x = apply(weights, x)
        return jnp.mean(x**2)

    weights = [jax.ShapeDtypeStruct((WIDTH, WIDTH), "float32") for _ in range(4)]
    batch = {"x": jax.ShapeDtypeStruct((BATCH, SEQUENCE, WIDTH), "float32")}
    return wb.trace_training(loss, weights, batch, optimizer="sgd")


@cache
def evaluator_of(order: str) -> Evaluator:
    start = Plan(training_step(order), "", hardware="TPU v5e 2x4")
    return Evaluator(make_space(start, schedules=("1f1b",), remats=("none",), axes=("stage", "data"), most_examples=4))


def candidates_of(evaluator: Evaluator) -> list:
    """Those whose four replicas have a micro-batch as large as the sequence is long."""
    found = [each for each in evaluator.space.candidates() if each.size("data") == 4 and each.size("stage") == 2]
    return [each for each in found if each.micro_batches == CONFUSED]


def relax(evaluator: Evaluator, candidate):
    plan = with_schedule(evaluator.space, evaluator.core(candidate.core()), candidate)
    return evaluator._relax(plan)


@pytest.mark.parametrize("order", ORDERS)
def test_few_replicas_are_taken_where_the_size_confuses_nothing(order):
    evaluator = evaluator_of(order)
    (candidate, *_) = candidates_of(evaluator)
    assert relax(evaluator, candidate).network.micro_batches == (2 * CONFUSED if ORDERS[order] else CONFUSED)


@pytest.mark.parametrize("order", ORDERS)
def test_no_plan_is_better_than_bounds_of_few_replicas(order):
    evaluator = evaluator_of(order)
    kinds = [verify_bounds(evaluator, each) for each in candidates_of(evaluator)]
    assert {"work", "candidates"} <= set.union(*kinds)


def test_few_replicas_give_the_bound_of_all(monkeypatch):
    """Each example costs the same with two replicas and with four that share nothing."""
    evaluator = evaluator_of("bsd")
    candidate = candidates_of(evaluator)[0]
    few = evaluator.bound_work(candidate.core(), CONFUSED)
    monkeypatch.setattr(Evaluator, "_relax_scaled", lambda *_, **__: None)
    whole = Evaluator(evaluator.space)
    assert relax(whole, candidate).network.micro_batches == CONFUSED
    own = whole.bound_work(candidate.core(), CONFUSED)
    assert few == pytest.approx(own, rel=EXACT - 1)
    assert own.seconds(recomputed=False) > 0
