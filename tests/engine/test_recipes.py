"""What a recipe promises is what happens: sharded steps equal unsharded ones, and the compiler sends what the plan says.

All recipes are planned for all models in `tests/recipes`; here a covering set of them is compiled and run, each recipe once at least and
on the model that has the most to do with it. What a recipe makes of the other models is the same edits.
"""

import functools

import jax
import numpy as np
import pytest

from workbench.comparison import Comparison, compare_collectives
from workbench.compiled import Compiled, CompiledMemory, payload_by_axis_and_kind
from workbench.differences import UNEXPLAINED
from workbench.engine.compiled_step import compile_step
from workbench.engine.hlo import parse_hlo
from workbench.engine.placement import host_value
from workbench.engine.readback import collectives_of
from workbench.engine.source_lines import SourceLines
from workbench.models import build
from workbench.plan import Plan

CASES = [
    ("mnist", (), "data:2 model:4", ("data_parallel", "megatron"), "agrees"),
    ("mnist", (), "data:4", ("zero_3",), "agrees"),
    ("gpt", (), "data:2 model:4", ("data_parallel", "megatron", "zero_1"), "agrees"),
    ("gpt", (), "data:2 model:4", ("data_parallel", "sequence_parallel", "zero_2"), "agrees"),
    ("gpt", (), "data:2 model:4", ("two_dimensional",), "explained"),
    ("decoder", (), "data:2 context:4", ("data_parallel", "context_parallel"), "agrees"),
    ("mixture", (("preset", "tiny-top2"),), "data:2 expert:4", ("data_parallel", "expert_parallel"), "agrees"),
    ("unet", (), "data:2 spatial:4", ("data_parallel", "spatial"), "agrees"),
]
"""Model, its arguments, mesh, recipes in turn; and whether all bytes agree by class and axis, or each difference has a named cause."""


@pytest.fixture(autouse=True, scope="module")
def quick_code_generation():
    """LLVM's effort halved: which collectives there are was decided before it starts."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@functools.cache
def unsharded(name, arguments):
    """The program, and the results of its first step by plain `jit` on one device."""
    built = build(name, **dict(arguments))
    state = built.step.initialize(jax.random.key(0), built.step.given)
    values = dict(zip(built.state + built.inputs, (*state, *built.step.feed(0)), strict=True))
    return built, [np.asarray(each) for each in jax.jit(built.step.call)(*(values[i] for i in range(len(values))))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[2]} {'+'.join(case[3])}")
def test_the_step_is_the_unsharded_one_and_sends_what_the_plan_says(case):
    name, arguments, mesh, recipes, outcome = case
    program, expected = unsharded(name, arguments)
    plan = functools.reduce(Plan.recipe, recipes, Plan(program, mesh))
    step = compile_step(plan)
    for tensor, ours, other in zip(program.results, step.advance(step.arguments(0), None), expected, strict=True):
        # Adam's first update is the sign of the gradient times the rate; its first moment, held closely, is the gradient.
        slack = 1e-5 if tensor.role != "parameter" else 5e-3
        np.testing.assert_allclose(
            host_value(ours), other, rtol=2e-4, atol=slack * max(np.abs(other).max(initial=0), 1e-6), err_msg=str(tensor)
        )
    text = step.compiled.as_text()
    found = collectives_of(parse_hlo(text), SourceLines(text), plan.mesh)
    compiled = Compiled("CPU", plan.mesh.size, 0.0, CompiledMemory(0, 0, 0, 0, 0), found)
    report = plan.report()
    differing = [row for row in compare_collectives(report, payload_by_axis_and_kind(found)) if not row.agrees]
    causes = {each.cause for each in Comparison(report, compiled).differences if each.predicted != each.compiled}
    assert UNEXPLAINED not in causes
    assert bool(differing) == (outcome == "explained"), differing
