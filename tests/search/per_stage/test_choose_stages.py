"""A layout of its own for each stage: what it is composed of, what it costs, and how a search finds it."""

from dataclasses import fields, replace
from functools import cache, partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.layout import Layout
from workbench.core.schedules.stage_cost import StageCost
from workbench.errors import EngineError, LayoutError, SearchError, WorkbenchError
from workbench.models import build
from workbench.pipeline.estimate_stage_costs import block_costs, partition_costs
from workbench.pipeline.pipeline_report import pipeline_report
from workbench.pipeline.staged_program import StagedProgram, staged_program
from workbench.plan.edits import apply_layout_edits
from workbench.public_plan import Plan
from workbench.recipes.recipe_edits import override_arguments
from workbench.search.candidate_plans import candidate_plan
from workbench.search.evaluator import Evaluator
from workbench.search.find_plans import find_plans
from workbench.search.layout_choices import PER_STAGE, LayoutChoice, list_layout_choices, usual_choices
from workbench.search.make_space import make_space
from workbench.search.neighbours import is_of_space, list_neighbours
from workbench.search.per_stage.choose_stages import StageOption, StageOptions, choose_stages, compose_layout, is_written_out
from workbench.search.present_plan import find_candidate
from workbench.search.run_search import run_search
from workbench.search.search_figures import evaluate_plan

MESH = "stage:2 data:2 model:2"
LARGER = {"convolutions": 2, "channels": 128, "levels": 2, "size": 32, "batch": 8}
"""A U-Net some stages of which are worth splitting."""
HELD = ("resident", "borrowed_grads")
"""What a stage holds whatever it is given."""


def plan_of(name: str, layout: str = "batch:data", **arguments) -> Plan:
    return Plan(build(name, **arguments), MESH, layout, hardware="TPU v5e 2x4", pipeline="stages:2 micro_batches:2")


def choices_of(plan: Plan) -> tuple[LayoutChoice, ...]:
    return next(each.of_stages for each in list_layout_choices(plan, ("stage", "data", "model")) if each.name == PER_STAGE)


@cache
def uniform(name: str) -> dict[str, StagedProgram]:
    plan = plan_of(name)
    return {each.name: staged_program(each.apply(plan)) for each in choices_of(plan)}


@pytest.mark.compile
@pytest.mark.parametrize(("name", "arguments"), [("unet", {}), ("gpt", {"scan": False}), ("mnist", {})])
def test_overrides_that_say_what_a_rule_says_cost_what_it_costs(name, arguments):
    base = plan_of(name, **arguments)
    for choice in choices_of(base):
        ruled = choice.apply(base)
        placed = zip(base.program.arguments, ruled.argument_shardings, base.argument_shardings, strict=True)
        shardings = {tensor.path: sharding for tensor, sharding, before in placed if sharding != before}
        start = base.updated(layout=base.layout.updated(constraints=ruled.layout.constraints))
        overridden = apply_layout_edits(start, override_arguments(start, shardings))
        assert overridden.layout.rules == base.layout.rules
        one, other = pipeline_report(ruled), pipeline_report(overridden)
        assert [each.cost for each in one.virtual_stages] == [each.cost for each in other.virtual_stages], choice.name


def test_blocks_that_are_alike_but_laid_out_apart_cost_what_each_costs():
    plan = plan_of("gpt", scan=False)
    split = plan.updated(layout="batch:data; layers/2/mlp/w1=[-, model]; layers/2/mlp/w2=[model, -]")
    before, after = block_costs(staged_program(plan)), block_costs(staged_program(split))
    assert [one.path for one, other in zip(before, after, strict=True) if one != other] == ["layers/2"]
    named = plan.updated(layout="batch:data; @layers/1/mlp/add=[data, model, ?]")
    after = block_costs(staged_program(named))
    changed = [one.path for one, other in zip(before, after, strict=True) if one != other]
    assert changed[:2] == ["layers/1", "layers/2"], "the next layer is given what this one leaves split"


@pytest.mark.compile
@settings(max_examples=12)
@given(name=st.sampled_from(["unet", "deep_unet"]), data=st.data())
def test_a_stage_of_a_composed_plan_costs_what_it_costs_where_all_stages_have_its_layout(name, data):
    """The first stage: what the next one costs depends on how it is given what this one made, and it sends it so."""
    layouts = uniform(name)
    chosen = data.draw(st.tuples(st.sampled_from([*layouts]), st.sampled_from([*layouts])))
    network = layouts["replicated"].network
    starts = (data.draw(st.integers(1, len(network.paths) - 1)),)
    layout = compose_layout([layouts[each].plan for each in chosen], network, starts)
    assert Layout(str(layout)) == layout
    spec = replace(plan_of(name).pipeline, boundaries=(network.paths[starts[0]],))
    found = partition_costs(staged_program(plan_of(name).updated(layout=layout, pipeline=spec)), starts)
    wanted = partition_costs(layouts[chosen[0]], starts)
    assert [field.name for field in fields(StageCost) if getattr(found[0], field.name) != getattr(wanted[0], field.name)] == []
    assert [getattr(found[1], name) for name in HELD] == [getattr(partition_costs(layouts[chosen[1]], starts)[1], name) for name in HELD]


def test_a_stage_is_given_what_the_one_before_it_has_split():
    """A slab of the picture arrives as a slab: that costs the stage otherwise than a whole picture would."""
    layouts = uniform("deep_unet")
    network, starts = layouts["replicated"].network, (5,)
    plans = [layouts[each].plan for each in ("spatial", "megatron")]
    plan = plans[0].updated(layout=compose_layout(plans, network, starts))
    assert partition_costs(staged_program(plan), starts)[0] == partition_costs(layouts["spatial"], starts)[0]
    assert partition_costs(staged_program(plan), starts)[1].forward > partition_costs(layouts["megatron"], starts)[1].forward


def test_arguments_that_stages_share_are_laid_out_as_the_first_has_them():
    plan = plan_of("gpt", scan=False)
    named = {each.name: each.apply(plan) for each in choices_of(plan) if each.name in ("replicated", "vocab")}
    network = staged_program(plan).network
    first = compose_layout([named["replicated"], named["vocab"]], network, (2,))
    assert str(first) == "batch:data"  # the table belongs to the embedding; the head is tied to it
    assert "embedding" in str(compose_layout([named["vocab"], named["replicated"]], network, (2,)))


def test_constraints_are_those_of_a_stages_own_layers():
    plan = plan_of("gpt", scan=False)
    named = {each.name: each.apply(plan) for each in choices_of(plan) if each.name in ("megatron", "megatron + sequence")}
    layout = compose_layout([named["megatron"], named["megatron + sequence"]], staged_program(plan).network, (3,))
    patterns = [pattern for pattern, _ in layout.constraints]
    assert patterns
    assert all(each.startswith(("layers/2/", "layers/3/", "head/", "loss/", "final")) for each in patterns), patterns
    assert dict(layout.rules)["d_ff"] == ("model",)


def test_of_layouts_that_fit_the_fastest_is_taken_and_the_leanest_that_keeps_pace():
    fast, lean, slow = StageOption(1.0, 90), StageOption(2.0, 50), StageOption(4.0, 10)
    options = StageOptions(((fast, fast), (lean, slow)), 100.0)
    assert options.fastest() == (0, 0)
    assert options.leanest() == (0, 0)
    uneven = StageOptions(((fast, slow), (lean, slow)), 100.0)
    assert uneven.fastest() == (0, 0)
    assert uneven.leanest() == (1, 0)
    assert StageOptions(((fast, fast), (lean, slow)), 60.0).fastest() == (1, 1)
    assert StageOptions(((fast, fast), (lean, slow)), 5.0).fastest() == (1, 1)


@cache
def larger() -> Plan:
    return plan_of("deep_unet", **LARGER)


@pytest.mark.compile
def test_it_is_faster_than_every_layout_of_all_stages_and_the_planner_says_so():
    plan = larger()
    makers = [partial(each.apply, plan) for each in choices_of(plan)]
    found = choose_stages(makers, plan.hardware.chip.memory)
    assert found.pipeline.boundaries
    assert evaluate_plan(found).seconds < min(evaluate_plan(make()).seconds for make in makers)


@pytest.mark.compile
@settings(max_examples=4)
@given(data=st.data())
def test_it_is_never_worse_than_the_best_layout_of_all_stages(data):
    name = data.draw(st.sampled_from(["unet", "deep_unet", "mnist"]))
    pipeline = f"stages:2 micro_batches:{data.draw(st.sampled_from([1, 2, 4]))} schedule:{data.draw(st.sampled_from(['1f1b', 'gpipe']))}"
    plan = plan_of(name).updated(pipeline=pipeline)
    makers = [partial(each.apply, plan) for each in choices_of(plan)]
    figures = [evaluate_plan(make()) for make in makers]
    limit = data.draw(st.sampled_from([0.0, *(each.memory for each in figures), float("inf")]))
    found = evaluate_plan(choose_stages(makers, limit))
    fitting = [each.seconds for each in figures if each.memory <= limit]
    if fitting:
        assert found.memory <= limit
        assert found.seconds <= min(fitting)
    else:
        assert found.memory <= min(each.memory for each in figures)


def test_it_is_cancelled_between_the_plans_that_it_is_made_of():
    plan, made = larger(), []

    def make(choice: LayoutChoice) -> Plan:
        made.append(choice.name)
        return choice.apply(plan)

    with pytest.raises(EngineError, match="cancelled while it chose the layouts of stages"):
        choose_stages([partial(make, each) for each in choices_of(plan)], 1e12, lambda: len(made) == 2)
    assert len(made) == 2


def test_layouts_that_are_illegal_are_left_out_and_none_at_all_is_an_error():
    plan = larger()

    def refuse() -> Plan:
        raise LayoutError("no", [])

    assert choose_stages([refuse, lambda: plan], 1e12) == plan
    with pytest.raises(LayoutError, match="no"):
        choose_stages([refuse], 1e12)


@pytest.mark.compile
def test_layers_of_a_scan_have_one_layout_for_all_stages():
    assert not is_written_out(build("conformer"))
    assert is_written_out(build("conformer", scan=False))
    for scan in (True, False):
        choices = list_layout_choices(Plan(build("gpt", scan=scan), "", hardware="8 H100"), ("stage", "data", "model"))
        assert (PER_STAGE in [each.name for each in choices]) is not scan
        assert PER_STAGE not in [each.name for each in usual_choices(choices)]
    with pytest.raises(SearchError) as raised:
        make_space(Plan(build("gpt"), "", hardware="8 H100"), layouts=PER_STAGE)
    assert raised.value.message == (
        "Per-stage layouts need hardware, to price them, and unrolled layers: "
        "parameters stacked over layers, in a scan, have one sharding for all stages."
    )
    assert raised.value.ways_out == ("unroll the layers: `scan=False` for models of the zoo", "name hardware", "use another layout")


@cache
def small_space(layouts: str = "all"):
    return make_space(Plan(build("mnist", batch=64), "data:4", hardware="TPU v5e 2x2"), layouts=layouts, most_examples=16)


def test_in_a_space_it_is_of_pipelines_of_one_chunk_a_device():
    space = small_space()
    own = [each for each in space.candidates() if each.layout == PER_STAGE]
    assert own
    for each in own:
        assert each.size("stage") > 1
        assert each.size("model") > 1
        assert each.chunks == 1
        assert is_of_space(space, each)
        assert all(is_of_space(space, other) for _, other in list_neighbours(space, each))
    assert len(list(space.candidates())) == space.size


@pytest.mark.share(2)
@pytest.mark.compile
@pytest.mark.parametrize("layouts", ["all", PER_STAGE])
def test_its_bounds_are_below_what_it_costs(layouts):
    space = small_space(layouts)
    evaluator = Evaluator(space)
    for candidate in [each for each in space.candidates() if each.layout == PER_STAGE]:
        try:
            truth = evaluator.evaluate(candidate)
        except WorkbenchError:
            continue
        core = candidate.core()
        bounds = [evaluator.bound_core(core).bounds]
        bounds += [each.bounds for each in evaluator.bound_candidates(core, candidate.micro_batches) if each.candidate == candidate]
        assert len(bounds) == 2
        for each in bounds:
            assert each.seconds <= truth.seconds * (1 + 1e-9)
            assert each.memory <= truth.memory * (1 + 1e-9)
        work = evaluator.bound_work(core, candidate.micro_batches).seconds(recomputed=candidate.remat == "full")
        assert candidate.micro_batches * work / candidate.size("stage") <= truth.seconds * (1 + 1e-9)


def test_a_search_finds_it_and_knows_it_again():
    pins = {"stage": 2, "data": 2, "micro_batches": 2, "zero": "no ZeRO", "schedule": "1f1b"}
    plan = larger().updated(pipeline=None)
    result = find_plans(plan, layouts="all", remats=("none",), within=300, pins=pins, schedules=("1f1b",), most_examples=2)
    assert result.state.is_proved
    assert result.front[0][0].layout == PER_STAGE
    assert find_candidate(result.space, result.best) == result.front[0][0]
    assert "layout" in {each.decision for each in result.what_if()}


def test_a_search_that_is_cancelled_leaves_it_open():
    space = make_space(larger(), layouts=PER_STAGE, remats=("none",), zeros=("no ZeRO",), schedules=("1f1b",), most_examples=2)
    asked = []

    def is_cancelled() -> bool:
        asked.append(1)
        return len(asked) > 2

    state = list(run_search(space, is_cancelled=is_cancelled, within=600))[-1]
    assert not state.is_complete
    assert not state.refused


def test_every_candidate_of_it_is_the_plan_of_its_figures():
    space = small_space(PER_STAGE)
    candidate = next(each for each in space.candidates())
    evaluator = Evaluator(space)
    assert evaluator.evaluate(candidate) == evaluate_plan(candidate_plan(space, candidate))
    assert evaluator.plan(candidate) is evaluator.plan(candidate)
