"""Every kind of bound that leaves plans out, against every plan of small spaces: of programs drawn by the seed, and of the zoo's smallest.

The programs are training steps of random stacks of layers, which nobody has tuned a bound for; `tests/search/test_bounds.py` has the zoo.
"""

import random
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import optax
import pytest

import workbench as wb
from tests.support.search_bounds import enumerate_figures, verify_bounds
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.layout_choices import list_layout_choices
from workbench.search.make_space import make_space
from workbench.search.plan_candidate import WHOLE, PlanCandidate
from workbench.search.requirements import AtMost
from workbench.search.run_search import run_search
from workbench.search.search_figures import Figures

HARDWARE = ("TPU v5e 2x2", "4 H100", "2 nodes of 2 A100")
CHOICES = {"schedules": ("1f1b", "interleaved", "zb_v"), "most_examples": 2}
BATCH = 8


def make_layer(*, is_gated: bool, is_residual: bool, mixes: bool):
    @wb.layer
    def apply(weights, x):
        h = jnp.einsum("bsd,df->bsf", x, weights["up"])
        h = jax.nn.silu(h) * h if is_gated else jax.nn.relu(h)
        out = jnp.einsum("bsf,fd->bsd", h, weights["down"])
        if mixes:
            out = jnp.einsum("bst,btd->bsd", jax.nn.softmax(jnp.einsum("bsd,btd->bst", out, x)), out)
        return x + out if is_residual else out

    return apply


def random_step(seed: int):
    """A training step of a random stack of layers: gated or not, residual or not, with a product like attention's or none."""
    rng = random.Random(seed)
    width, hidden = rng.choice((16, 24, 32)), rng.choice((18, 32, 48, 64))
    names = ("is_gated", "is_residual", "mixes")
    layers = [make_layer(**{name: rng.random() < 0.5 for name in names}) for _ in range(rng.choice((2, 4)))]

    def loss(parameters, batch):
        x = batch["x"]
        for weights, apply in zip(parameters, layers, strict=True):
            x = apply(weights, x)
        return jnp.mean((x - batch["y"]) ** 2)

    weights = {"up": jax.ShapeDtypeStruct((width, hidden), "float32"), "down": jax.ShapeDtypeStruct((hidden, width), "float32")}
    examples = jax.ShapeDtypeStruct((BATCH, rng.choice((4, 8)), width), "float32")
    optimizer = rng.choice((optax.adam(1e-3), optax.sgd(1e-3, momentum=0.9)))
    return wb.trace_training(loss, [weights for _ in layers], {"x": examples, "y": examples}, optimizer=optimizer)


@cache
def evaluator_of(seed: int) -> Evaluator:
    """The space of a program: every third has a layout of its own for each stage, every second stages that recompute."""
    plan = Plan(random_step(seed), "", hardware=HARDWARE[seed % len(HARDWARE)])
    zeros = (("no ZeRO", "zero_3"), ("zero_1", "zero_3"), ("zero_2", "zero_3"))[seed % 3]
    space = make_space(plan, remats=("full",) if seed % 2 else ("none",), zeros=zeros, **CHOICES)
    per_stage = [each for each in list_layout_choices(plan, space.axes) if each.is_per_stage and seed % 3 == 0]
    return Evaluator(replace(space, layouts=(*space.layouts[: 3 - len(per_stage)], *per_stage)))


@pytest.mark.share(10)
@pytest.mark.parametrize("seed", range(10))
def test_no_plan_of_a_random_program_is_better_than_any_of_its_bounds(seed):
    evaluator = evaluator_of(seed)
    truth = enumerate_figures(evaluator)
    kinds = set().union(*(verify_bounds(evaluator, each) for each in truth))
    assert kinds == {"core", "divided", "schedule", "candidates", "work", "partition", "sharing"}
    assert {each.schedule == WHOLE for each in truth} == {False, True}
    verify_optimum(evaluator, truth, random.Random(seed))


def verify_optimum(evaluator: Evaluator, truth: dict[PlanCandidate, Figures], rng: random.Random) -> None:
    """Assert that a search proves the fastest plan within the memory of a drawn one."""
    most = rng.choice(sorted(each.memory for each in truth.values()))
    *_, last = run_search(evaluator.space, (AtMost("memory", most),), evaluator=Evaluator(evaluator.space), within=600)
    assert last.is_proved
    assert last.best is not None
    assert last.best[1].seconds == min(each.seconds for each in truth.values() if each.memory <= most)
