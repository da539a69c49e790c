"""Products beside an axis that splits nothing: what XLA makes of them is worked out by hand, its partitioner answers it, the plan says it
where no such axis is put to use, and the result is right."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.spmd.compiled_step import compile_step
from workbench.engine.spmd.device_mesh import host_value
from workbench.public_plan import Plan
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.spmd.compile_to_schedule import module_of
from workbench.spmd.hlo_flops import flops_of
from workbench.tracing import trace

pytestmark = pytest.mark.compile

GATHER, REDUCE, PERMUTE = "all-gather", "all-reduce", "collective-permute"


class Case(NamedTuple):
    """float32[n, d] times float32[d, f]; `sent` is worked out by hand."""

    about: str
    shape: tuple[int, int, int]
    mesh: str
    layout: str
    sent: dict

    def __str__(self):
        return self.about


CASES = (
    Case(
        "fetched along the idle axis",
        (256, 64, 64),
        "a:2 b:4",
        "n:a; w=[a,-]",
        {(("a", "b"), PERMUTE): 4096, (("b",), GATHER): 16384},  # a quarter, then the whole
    ),
    Case(
        "summed over slices, as the result is smaller",
        (64, 64, 64),
        "a:2 b:4",
        "n:a; w=[a,-]",
        {(("a", "b"), PERMUTE): 4096, (("b",), REDUCE): 8192},
    ),
    Case(
        "as large as the weight: gathered",
        (128, 64, 64),
        "a:2 b:4",
        "n:a; w=[a,-]",
        {(("a", "b"), PERMUTE): 4096, (("b",), GATHER): 16384},
    ),
    Case(
        "fetched along two idle axes",
        (64, 64, 64),
        "a:2 b:2 c:2",
        "n:a; w=[a,-]",
        {(("a", "b", "c"), PERMUTE): 4096, (("b", "c"), REDUCE): 8192},
    ),
    Case(
        "beside an axis of the result", (64, 64, 64), "a:2 b:2 c:2", "n:a; w=[a,b]", {(("a", "c"), PERMUTE): 4096, (("c",), REDUCE): 4096}
    ),
    Case("too few hold the same: straight", (64, 64, 64), "a:4 b:2", "n:a; w=[a,-]", {(("a",), GATHER): 16384}),
    Case("nothing idle: straight", (64, 64, 64), "a:2 b:4", "n:a+b; w=[a,-]", {(("a",), GATHER): 16384}),
    Case("one operand cut along the sum, the result smaller", (16, 256, 16), "b:4", "x=[-,b]; w=[-,-]", {(("b",), REDUCE): 1024}),
    Case("one operand cut along the sum, the result as large", (16, 256, 256), "b:4", "x=[-,b]; w=[-,-]", {(("b",), GATHER): 16384}),
    Case("one operand cut along the sum, an axis idle", (16, 256, 16), "a:2 b:4", "x=[-,b]; w=[-,-]", {(("b",), GATHER): 16384}),
    Case("one operand cut along the sum, none idle", (16, 256, 16), "a:2 b:4", "x=[a,b]; w=[-,-]", {(("b",), REDUCE): 512}),
    Case(
        "a slice kept of a sum, an axis idle",
        (64, 64, 64),
        "a:2 b:4",
        "n:a; g=[a,-]",
        {(("a",), REDUCE): 8192, (("a", "b"), PERMUTE): 8192},
    ),
    Case("a slice kept of a sum, none idle", (64, 64, 64), "a:2", "n:a; g=[a,-]", {(("a",), "reduce-scatter"): 16384}),
    Case(
        "a batch on two axes, a third idle: it gathers",
        (256, 64, 64),
        "a:2 b:2 c:2",
        "n:a+b; w=[a,-]",
        {(("a", "b", "c"), PERMUTE): 8192, (("c",), GATHER): 16384},  # a half, then the whole
    ),
    Case(
        "a batch on two axes, a third idle: it sums",
        (64, 64, 64),
        "a:2 b:2 c:2",
        "n:a+b; w=[b,-]",
        {(("b", "c"), PERMUTE): 8192, (("c",), REDUCE): 4096},
    ),
    Case(
        "a weight cut over the batch's axis and an idle one",
        (64, 64, 64),
        "a:2 b:2 c:2",
        "n:a; w=[a+b,-]",
        {(("a", "b", "c"), PERMUTE): 4096, (("a",), GATHER): 8192, (("c",), GATHER): 16384},
    ),
    Case("a weight cut over all of the batch's axes", (256, 64, 64), "a:2 b:2 c:2", "n:a+b; w=[a+b,-]", {(("a", "b"), GATHER): 16384}),
    Case(
        "both dimensions of a weight cut: columns of a quarter stay",
        (32, 64, 64),
        "a:2 b:2 c:2",
        "n:a+b; w=[a,b]",
        {(("a", "c"), PERMUTE): 8192, (("a", "b", "c"), PERMUTE): 2048, (("a",), GATHER): 4096, (("c",), REDUCE): 2048},
    ),
    Case(
        "a slice kept of a sum over two axes, a third idle",
        (64, 64, 64),
        "a:2 b:2 c:2",
        "n:a+b; g=[a,-]",
        {(("a", "b"), REDUCE): 8192, (("a", "b", "c"), PERMUTE): 8192},
    ),
    Case(
        "slices kept along both dimensions: one sum an axis",
        (64, 64, 64),
        "a:2 b:2 c:2",
        "n:a+b; g=[a,b]",
        {(("a",), REDUCE): 16384, (("b",), REDUCE): 16384},
    ),
)


def product(case):
    """The product, or where `g` is said the weight gradient."""
    n, d, f = case.shape
    if "g=" in case.layout:
        shapes = jax.ShapeDtypeStruct((n, d), "float32"), jax.ShapeDtypeStruct((n, f), "float32")
        return trace(lambda x, y: {"g": x.T @ jnp.tanh(y)}, *shapes, dims={"x": "n d", "y": "n f"})
    shapes = jax.ShapeDtypeStruct((n, d), "float32"), jax.ShapeDtypeStruct((d, f), "float32")
    return trace(lambda x, w: jnp.tanh(x) @ w, *shapes, dims={"x": "n d", "w": "_ f"})


@functools.cache
def plan_of(case):
    return Plan(product(CASES[case]), CASES[case].mesh, CASES[case].layout)


each_case = pytest.mark.parametrize("case", range(len(CASES)), ids=lambda number: str(CASES[number]))


def is_planned(case):
    """Where devices that hold the same do not share the work, and no two slices are kept of one sum: all else only the answer tells."""
    return all(kind != PERMUTE for _, kind in case.sent) and not case.about.startswith("slices kept along both")


@each_case
def test_what_is_worked_out_by_hand_is_the_partitioners_answer(case):
    assert ask_partitioner(plan_of(case)).by_axis_and_kind == CASES[case].sent


@pytest.mark.parametrize("case", [number for number, each in enumerate(CASES) if is_planned(each)], ids=lambda number: str(CASES[number]))
def test_the_plan_sends_what_is_worked_out_by_hand(case):
    assert plan_of(case).report().by_axis_and_kind == CASES[case].sent


@each_case
def test_the_compiled_product_sends_that_computes_as_much_and_is_the_unsharded_one(case):
    plan = plan_of(case)
    step = compile_step(plan)
    module = module_of(step.compiled)
    found = payload_by_axis_and_kind(collectives_of(module, plan.mesh))
    scattered = "reduce-scatter"  # XLA:CPU makes an all-reduce and a slice of it
    assert found == {(axes, REDUCE if kind == scattered else kind): count for (axes, kind), count in CASES[case].sent.items()}
    planned, compiled = plan.report().flops.per_device, sum(flops_of(each, each.values()) for each in module.computations.values())
    assert planned == compiled if is_planned(CASES[case]) else planned >= compiled
    (ours,) = step.advance(step.arguments(0), None)
    expected = jax.tree.leaves(plan.program.step.call(*plan.program.step.feed(0)))
    np.testing.assert_allclose(host_value(ours), expected[0], rtol=1e-4, atol=1e-4)
