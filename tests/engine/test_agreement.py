"""What the planner says is what happens: every zoo model, every layout, on eight devices.

What is sent is asked of the partitioned module for a quarter of the layouts; a sixth, drawn anew for every run, with each model among them,
is compiled and runs.
"""

import functools
from typing import NamedTuple

import numpy as np
import pytest

from tests.support.choosing import parametrize_drawn
from tests.support.first_step import decided, moment_slack
from tests.support.unsharded import BATCH, unsharded, zoo_program
from workbench.analysis.compared_figures import CollectiveRow
from workbench.analysis.tier_comparison import compare_collectives
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.spmd.compiled_step import compile_step
from workbench.engine.spmd.device_mesh import host_value, put_sharded, real_shard_shape
from workbench.models.mixture.mixture import expert_parallel
from workbench.models.registry import ALL_MODELS
from workbench.public_plan import Plan
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.spmd.compile_to_schedule import module_of

pytestmark = pytest.mark.compile

TOP2_LAYOUTS = (
    ("data:2 expert:4", expert_parallel(batch="data+expert", shares=False)),
    ("expert:4 model:2", expert_parallel(batch="expert", shares=False) + "; heads:model; d_ff:model; d_expert:model"),
)
"""For `tiny-top2`, GShard's mixture, on eight devices: tokens split over the axis of the experts and another, and each expert too."""

WIDE = {"einsum": (("dtype", "float32"),)}  # what it makes of bfloat16 by itself, XLA:CPU sums in float32
CASES = [
    *((model.name, WIDE.get(model.name, ()), *on) for model in ALL_MODELS if model.name != "amoebanet" for on in model.layouts),
    *(("gpt", (("scan", False), ("layers", 2)), mesh, layout) for mesh, layout in ALL_MODELS[-1].layouts[2:7:2]),
    ("gpt", (("remat", True),), *ALL_MODELS[-1].layouts[3]),
    ("gpt", (("preset", "tiny-wide"),), *ALL_MODELS[-1].layouts[6]),
    *(("mixture", (("preset", "tiny-top2"),), mesh, layout) for mesh, layout in TOP2_LAYOUTS),
]
"""(model, its arguments, mesh, layout); the unrolled and the rematerialised form on some layouts too, GSPMD's wide model in two dimensions,
and the mixture of GShard. AmoebaNet takes a minute to compile, and the first update of its optimizer is the sign of the gradient: what it
computes is tested beside its pipelines."""


class Ran(NamedTuple):
    """One sharded step, beside its plan."""

    planned: dict[str, list[tuple[int, ...]]]
    held: dict[str, list[tuple[int, ...]]]
    results: list[np.ndarray]
    collectives: tuple[CollectiveRow, ...]


def plan_of(name, arguments, mesh, layout):
    return Plan(zoo_program(name, arguments), mesh, layout)


@functools.cache
def compiled(*case):
    return compile_step(plan_of(*case))


@functools.cache
def ran(*case):
    step = compiled(*case)
    report, reference = step.plan.report(), unsharded(*case[:2], BATCH)
    held = [put_sharded(np.array(reference.arguments[i]), sharding) for i, sharding in enumerate(step.shardings)]
    argument_shapes = [real_shard_shape(each) for each in held]
    results = step.advance(held, None)
    return Ran(
        {"arguments": [each.local_shape for each in report.arguments], "results": [each.local_shape for each in report.results]},
        {"arguments": argument_shapes, "results": [real_shard_shape(each) for each in results]},
        [host_value(each) for each in results],
        compare_collectives(report, payload_by_axis_and_kind(collectives_of(module_of(step.compiled), step.plan.mesh))),
    )


def name_of(case):
    return f"{case[0]}{dict(case[1]) or ''} {case[2]} | {case[3]}"


def pytest_generate_tests(metafunc):
    parametrize_drawn(metafunc, "case", CASES, lambda case: [case[0]], name_of, share=6)
    parametrize_drawn(metafunc, "born", CASES, lambda case: [case[0]], name_of, share=len(CASES))


def test_every_device_holds_the_shards_the_plan_says(case):
    assert ran(*case).held == ran(*case).planned


def test_the_sharded_step_is_the_unsharded_one(case):
    """Loss, updated parameters and moments; the first moment of Adam is the gradient."""
    built, whole = zoo_program(*case[:2]), unsharded(*case[:2], BATCH).results
    compared, of_moments = decided(built, whole), moment_slack(built)
    for tensor, ours, expected in zip(built.results, ran(*case).results, whole, strict=True):
        share = {"parameter": 5e-3, "optimizer state": of_moments}.get(tensor.role, 1e-5)
        slack = share * max(np.abs(expected).max(initial=0), 1e-6)
        there = compared.get(tensor.path, ...)
        np.testing.assert_allclose(ours[there], expected[there], rtol=2e-4, atol=slack, err_msg=str(tensor))


def test_the_compiled_program_sends_the_bytes_the_plan_says(case):
    assert [row for row in ran(*case).collectives if not row.agrees] == []


@pytest.mark.share(4)
@pytest.mark.parametrize("asked", CASES, ids=name_of)
def test_the_partitioned_program_sends_the_bytes_the_plan_says(asked):
    plan = plan_of(*asked)
    rows = compare_collectives(plan.report(), ask_partitioner(plan, "cpu").by_axis_and_kind)
    assert [row for row in rows if not row.agrees] == []


def test_what_a_step_starts_from_is_born_where_it_lies(born):
    """State and inputs as the step makes and feeds them itself: the shards that the plan says, of the values that plain `jit` makes."""
    step = compiled(*born)
    arguments = step.arguments(0)
    assert [real_shard_shape(each) for each in arguments] == [each.local_shape for each in step.plan.report().arguments]
    for number, (tensor, ours) in enumerate(zip(step.program.arguments, arguments, strict=True)):
        expected = unsharded(*born[:2]).arguments[number]
        np.testing.assert_allclose(host_value(ours), expected, rtol=1e-5, atol=1e-6, err_msg=str(tensor))
