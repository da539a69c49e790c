"""The best split of each operation: what the solver weighs is what the planner plans, and what it finds is written as a layout."""

from dataclasses import replace
from itertools import pairwise

import jax
import jax.numpy as jnp
import pytest

import workbench as wb
from workbench.cost.estimate import estimate
from workbench.errors import SearchError
from workbench.hardware.catalogue import read_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.find_plans import find_plans
from workbench.search.layout_choices import PER_OPERATION, list_layout_choices
from workbench.search.make_space import make_space
from workbench.search.neighbours import is_of_space, list_neighbours
from workbench.search.per_operation.choice_problem import assess
from workbench.search.per_operation.choose_layout import choose_layout
from workbench.search.per_operation.program_problem import WHOLE, make_program_problem
from workbench.search.per_operation.solve_problem import solve
from workbench.search.present_plan import find_candidate
from workbench.search.search_figures import evaluate_plan


def llama() -> Plan:
    """Four layers of Llama 3 8B with one long sequence, which no replicas can share."""
    return Plan(build("decoder", preset="llama3-8b", layers=4, batch=1, seq=8192), "data:1 model:8", "", hardware="8 H100")


def gpt() -> Plan:
    program = build("gpt", batch=64, d_model=2048, heads=16, d_ff=8192, layers=8, seq=1024)
    return Plan(program, "data:2 model:4", "batch:data", hardware="8 H100")


def test_llama_is_laid_out_as_megatron_but_for_the_output_of_attention():
    """As AutoParallel (Meta) finds: all is tensor parallel with split sequences, `wo` alone is gathered and its product split along the
    sequence."""
    plan = llama()
    layout = choose_layout(plan, "model")
    overrides = {pattern: str(sharding) for pattern, sharding in layout.overrides}
    assert overrides["layers/attention/wqkv"] == "[-, -, model, -, -]"
    assert overrides["layers/mlp/w1"] == "[-, -, -, model]"
    assert overrides["layers/mlp/w2"] == "[-, model, -]"
    constraints = {pattern: str(sharding) for pattern, sharding in layout.constraints}
    assert constraints["layers/attention/output/dot_general"] == "[-, model, -]"
    chosen = evaluate_plan(plan.updated(layout=layout))
    recipes = [each for each in list_layout_choices(plan, ("data", "model")) if "megatron" in each.name]
    assert len(recipes) >= 1
    for each in recipes:
        known = evaluate_plan(each.apply(plan))
        assert chosen.seconds < 0.9 * known.seconds
        assert chosen.memory < known.memory


@pytest.mark.parametrize("make", [llama, gpt], ids=["llama", "gpt"])
def test_the_sum_that_the_solver_makes_small_is_about_the_planned_step(make):
    plan = make()
    made = make_program_problem(estimate(plan), "model")
    solution = solve(made.problem, iterations=30, gap=0.005)
    planned = evaluate_plan(plan.updated(layout=choose_layout(plan, "model"))).seconds
    assert solution.cost / 1e9 == pytest.approx(planned, rel=0.12)


def test_unsplit_operations_cost_what_the_plan_without_the_axis_costs():
    plan = gpt()
    found = estimate(plan)
    made = make_program_problem(found, "model")
    assert found.times is not None
    assert found.step_time is not None
    whole = assess(made.problem, [0] * len(made.problem.nodes))
    computing = float((found.times.busy * found.kernels.times).sum())
    sent = sum(cost.seconds for cost in found.costs)
    assert computing < whole.cost / 1e9 < (computing + 60 * sent) * 1.05
    assert all(placed.splits[0] == WHOLE for placed in (*made.arguments, *made.results.values()))


def test_every_process_finds_the_same_layout():
    one, other = gpt(), gpt()
    assert choose_layout(one, "model") == choose_layout(other, "model")


def test_the_statements_of_the_plan_stay():
    plan = gpt()
    layout = choose_layout(plan, "model")
    assert layout.rule("batch") == ("data",)
    assert "model" in str(layout)


def test_where_memory_is_short_it_is_kept_to():
    """Six GiB of weights whole, gradients besides: on devices of 80 GB that does not matter, on those of 4 GiB it decides."""
    program = build("two_layer", batch=64, io=16384, hidden=65536)
    large = read_hardware("8 H100")
    assert large is not None
    small = replace(large, chip=replace(large.chip, memory=4 * 1024**3))
    held = {}
    for hardware in (large, small):
        made = make_program_problem(estimate(Plan(program, "model:8", "", hardware=hardware)), "model")
        solution = solve(made.problem, iterations=30)
        assert solution.strategies is not None
        held[hardware.chip.memory] = assess(made.problem, solution.strategies).peak_usage
        free = solve(made.problem.without_limit(), iterations=30)
        assert free.cost <= solution.cost
    assert held[small.chip.memory] <= small.chip.memory


def odd_program() -> wb.Program:
    """A program without a batch, an optimizer or anybody's names: a chain of products of different widths."""

    def chain(matrices: list[jax.Array]) -> jax.Array:
        found = matrices[0]
        for each in matrices[1:]:
            found = jnp.tanh(found @ each)
        return found

    widths = (4096, 8192, 2048, 16384, 4096)
    shapes = [jax.ShapeDtypeStruct(pair, "bfloat16") for pair in pairwise(widths)]
    return wb.trace(chain, shapes, name="chain")


def test_a_program_of_products_alone_is_divided_without_naming_anything():
    plan = Plan(odd_program(), "model:8", "", hardware="8 H100")
    whole, chosen = evaluate_plan(plan), evaluate_plan(plan.updated(layout=choose_layout(plan, "model")))
    assert chosen.seconds < whole.seconds / 3


def test_a_search_may_choose_the_layout_of_each_operation():
    plan = llama()
    result = find_plans(plan, layouts=PER_OPERATION, remats=("none",), zeros=("no ZeRO",), within=60)
    assert result.state.is_proved
    assert [candidate.layout for candidate, _ in result.front] == [PER_OPERATION] * len(result.front)
    assert result.best.layout == choose_layout(result.best.updated(layout=""), "model")


def test_a_plan_so_found_is_known_again_and_no_other_is_looked_for_long(monkeypatch):
    plan = llama()
    found = find_plans(plan, layouts=PER_OPERATION, remats=("none",), within=60)
    space = make_space(plan, layouts=(PER_OPERATION, "megatron"))
    assert find_candidate(space, found.best) == found.front[0][0]
    monkeypatch.setattr("workbench.search.layout_choices.choose_layout", lambda *_: pytest.fail("nothing says that it is one"))
    assert find_candidate(space, plan) is None


def test_layouts_of_each_operation_are_those_of_steps_without_a_pipeline():
    space = make_space(Plan(build("gpt"), "data:8", hardware="TPU v5e 2x4"), layouts="all", devices=8)
    chosen = [each for each in space.candidates() if each.layout == PER_OPERATION]
    assert chosen
    for each in chosen:
        assert (each.size("stage"), each.micro_batches) == (1, 1)
        assert each.size("model") > 1
        assert is_of_space(space, each)
        assert all(is_of_space(space, other) for _, other in list_neighbours(space, each))
    assert len(list(space.candidates())) == space.size


def test_their_bounds_are_below_what_they_cost():
    space = make_space(Plan(build("mnist", batch=64), "data:4", hardware="TPU v5e 2x2"), layouts=PER_OPERATION)
    evaluator = Evaluator(space)
    assert list(space.cores())
    for core in space.cores():
        bounds, figures = evaluator.bound_core(core).bounds, evaluator.evaluate(core)
        assert bounds.seconds <= figures.seconds
        assert bounds.memory <= figures.memory


def test_without_hardware_nothing_says_what_an_operation_costs():
    plan = Plan(build("gpt"), "model:8", "")
    assert PER_OPERATION not in make_space(plan, layouts="all").layout_by_name
    with pytest.raises(SearchError) as raised:
        choose_layout(plan, "model")
    assert raised.value.message == "The cost of an operation is unknown: the plan has no hardware."
    assert raised.value.ways_out == ('set one, "8 H100"',)
