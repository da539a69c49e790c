"""What the planner says is what happens: every zoo model, every layout, on eight devices."""

import functools
from typing import NamedTuple

import jax
import numpy as np
import pytest

from tests.support.first_step import decided, moment_slack
from workbench.analysis.comparison import CollectiveRow, compare_collectives
from workbench.engine.hlo.hlo_collectives import collectives_of
from workbench.engine.spmd.compiled_step import compile_step
from workbench.engine.spmd.placement import host_value, real_shard_shape
from workbench.models.mixture.layouts import TOP2_LAYOUTS
from workbench.models.registry import ALL_MODELS, build
from workbench.plan.plan import Plan
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.spmd.executable import module_of

CASES = [
    *((model.name, (), mesh, layout) for model in ALL_MODELS if model.name != "amoebanet" for mesh, layout in model.layouts),
    *(("gpt", (("scan", False), ("layers", 2)), mesh, layout) for mesh, layout in ALL_MODELS[-1].layouts[2:7:2]),
    ("gpt", (("remat", True),), *ALL_MODELS[-1].layouts[3]),
    ("gpt", (("preset", "tiny-wide"),), *ALL_MODELS[-1].layouts[6]),
    *(("mixture", (("preset", "tiny-top2"),), mesh, layout) for mesh, layout in TOP2_LAYOUTS),
]
"""(model, its arguments, mesh, layout); the unrolled and the rematerialised form on some layouts too, GSPMD's wide model in two dimensions,
and the mixture of GShard. AmoebaNet takes a minute to compile, and the first update of its optimiser is the sign of the gradient: what it
computes is tested beside its pipelines."""


class Ran(NamedTuple):
    """One sharded step, beside its plan."""

    planned: dict[str, list[tuple[int, ...]]]
    held: dict[str, list[tuple[int, ...]]]
    results: list[np.ndarray]
    collectives: tuple[CollectiveRow, ...]


pytestmark = pytest.mark.usefixtures("quick_code_generation")


@functools.cache
def program(name, arguments):
    return build(name, **dict(arguments))


@functools.cache
def unsharded(name, arguments):
    """The results of the first step by plain `jit` on one device."""
    step, built = program(name, arguments).step, program(name, arguments)
    state = step.initialize(jax.random.key(0), step.given) if built.state else ()
    values = dict(zip(built.state + built.inputs, (*state, *step.feed(0)), strict=True))
    return [np.asarray(each) for each in jax.jit(step.call)(*(values[i] for i in range(len(values))))]


@functools.cache
def ran(name, arguments, mesh, layout):
    plan = Plan(program(name, arguments), mesh, layout)
    report, step = plan.report(), compile_step(plan)
    held = step.arguments(0)
    argument_shapes = [real_shard_shape(each) for each in held]
    results = step.advance(held, None)
    return Ran(
        {"arguments": [each.local_shape for each in report.arguments], "results": [each.local_shape for each in report.results]},
        {"arguments": argument_shapes, "results": [real_shard_shape(each) for each in results]},
        [host_value(each) for each in results],
        compare_collectives(report, payload_by_axis_and_kind(collectives_of(module_of(step.compiled), plan.mesh))),
    )


def each_case(test):
    return pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}{dict(case[1]) or ''} {case[2]} | {case[3]}")(test)


@each_case
def test_every_device_holds_the_shards_the_plan_says(case):
    assert ran(*case).held == ran(*case).planned


@each_case
def test_the_sharded_step_is_the_unsharded_one(case):
    """Loss, updated parameters and moments; the first moment of Adam is the gradient."""
    built, whole = program(*case[:2]), unsharded(*case[:2])
    compared, of_moments = decided(built, whole), moment_slack(built)
    for tensor, ours, expected in zip(built.results, ran(*case).results, whole, strict=True):
        share = {"parameter": 5e-3, "optimizer state": of_moments}.get(tensor.role, 1e-5)
        slack = share * max(np.abs(expected).max(initial=0), 1e-6)
        there = compared.get(tensor.path, ...)
        np.testing.assert_allclose(ours[there], expected[there], rtol=2e-4, atol=slack, err_msg=str(tensor))


@each_case
def test_the_compiled_program_sends_the_bytes_the_plan_says(case):
    assert [row for row in ran(*case).collectives if not row.agrees] == []
