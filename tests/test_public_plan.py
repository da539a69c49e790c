"""The plan that users hold: whatever hands them one, it has the methods, and its data is that of the plan below."""

import dataclasses

import cloudpickle
import pytest

import workbench as wb
from tests.support.programs import mlp
from workbench import public_plan
from workbench.core.pipeline_spec import PipelineSpec
from workbench.documents import dump_plan, load_plan
from workbench.errors import PipelineError
from workbench.exercises import Exercise, PlanQuestion
from workbench.exercises.goals.figure_goals import Fits
from workbench.models import build
from workbench.plan import plan as data
from workbench.plan.edits import OpenPlan, SetHardware, SetPipeline, ShardDim
from workbench.public_plan import Plan, as_public
from workbench.search.find_plans import find_plans

FIELDS = ("program", "mesh", "layout", "name", "hardware", "axis_assignment", "pipeline")


def pair() -> tuple[Plan, data.Plan]:
    """The same plan with the methods and without."""
    given = (build("two_layer"), "data:4", "batch:data", "mine", "TPU v5e 2x2")
    return Plan(*given), data.Plan(*given)


def test_the_names_that_users_import_have_the_methods():
    assert wb.Plan is Plan
    assert wb.load is public_plan.load
    assert str(wb.Plan(build("two_layer"), "data:4").report())


def test_a_plan_equals_its_data_and_has_its_hash():
    public, plain = pair()
    assert public == plain
    assert plain == public
    assert hash(public) == hash(plain)
    assert {public: "found"}[plain] == "found"
    assert tuple(each.name for each in dataclasses.fields(Plan)) == FIELDS
    for name, other in (("layout", ""), ("name", "yours"), ("mesh", "data:2"), ("hardware", None)):
        assert public != plain.updated(**{name: other})
        assert plain != public.updated(**{name: other})
    assert public != "a plan"


def test_a_plan_is_frozen():
    public, _ = pair()
    with pytest.raises(dataclasses.FrozenInstanceError):
        public.name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        public.note = "an attribute of my own"


def test_the_methods_are_added_without_another_check():
    public, plain = pair()
    assert as_public(public) is public
    made = as_public(plain)
    assert type(made) is Plan
    assert (made, repr(made), str(made)) == (public, repr(public), str(public))


def test_plans_made_of_a_plan_keep_its_class():
    public, plain = pair()
    for one, kind in ((public, Plan), (plain, data.Plan)):
        assert type(one.updated(layout="")) is kind
        assert type(dataclasses.replace(one, layout="")) is kind
        assert type(ShardDim("hidden", ("data",)).apply(one.updated(layout=""))) is kind
        assert type(SetHardware(None).apply(one)) is kind
    assert type(public.apply(OpenPlan(plain, "a file"))) is Plan
    assert type(public.updated(layout="", hardware=None).recipe("data_parallel")) is Plan
    assert type(public.report().plan) is Plan


def test_a_plan_is_pickled_as_what_it_is():
    for kind in (Plan, data.Plan):
        plan = kind(mlp(), "data:4 model:2", "batch:data")
        again = cloudpickle.loads(cloudpickle.dumps(plan))
        assert (type(again), again) == (kind, plan)


def test_apply_refuses_stages_that_the_program_is_known_not_to_have():
    plan = Plan(build("gpt", layers=1), "stage:1", pipeline="stages:1 micro_batches:1")
    assert plan.report().pipeline is not None  # its blocks are known from here on
    with pytest.raises(PipelineError, match="99 stages need as many"):
        plan.apply(SetPipeline(PipelineSpec(99, 1)))


def test_plans_that_are_read_for_a_user_have_the_methods(tmp_path):
    public, _ = pair()
    path = tmp_path / "mine.plan.json"
    public.save(path)
    assert type(load_plan(path)) is data.Plan
    assert type(wb.load(path)) is Plan
    assert wb.load(path) == public
    for start in (dump_plan(public), load_plan(path)):
        exercise = Exercise("one", "One", (PlanQuestion(start, Fits(), name="fit"),))
        assert type(exercise.first_plan) is Plan
        assert type(exercise["fit"].plan) is Plan
        assert exercise["fit"].check(public.updated(layout=""))


def test_a_session_and_a_search_of_a_plan_have_plans_with_the_methods():
    public, _ = pair()
    session = wb.Session(public)
    session.apply(SetHardware(None))
    assert {type(node.plan) for node in session.nodes} == {Plan}
    result = find_plans(public.updated(layout=""), within=60, most_evaluations=2)
    assert type(result.best) is Plan
    assert {type(result.plan(number)) for number in range(len(result.front))} == {Plan}


def test_a_board_in_a_notebook_hands_out_plans_with_the_methods():
    _, plain = pair()
    board = wb.Workbench(plain)
    try:
        assert type(board.plan) is Plan
        assert board.plan == plain
    finally:
        board.close()


def test_a_plan_is_compared_with_plans_alone():
    public, plain = pair()
    assert "are identical" in str(public.diff(plain))
    with pytest.raises(wb.WorkbenchError, match="it should be a `Plan`"):
        public.diff("a plan")
