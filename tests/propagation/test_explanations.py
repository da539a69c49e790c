"""Explanations are checked, not plausible: without the origin that is named, the axis is gone, or comes from one of the others named."""

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.propagation.test_random_programs import TRACED, plans
from workbench.core.sharding import Sharding, base_axis
from workbench.models import build
from workbench.plan.edits import Constrain, Override
from workbench.propagation import propagation_of
from workbench.propagation.explain.recorded_propagation import recording_passes
from workbench.propagation.module.mlir_context import main_function, run_passes
from workbench.propagation.module.operation_kinds import operations_below
from workbench.propagation.propagate import annotated_module, propagating_passes
from workbench.public_plan import Plan
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import REASONS, AxisOnDim, Origin


@st.composite
def constrained(draw):
    """A random plan, half of them with a constraint on a random value."""
    plan = draw(plans())
    operations = [each for each in plan.program.operations if each.path and each.shape and each.kind not in ("constant", "data_flow_edge")]
    if not operations or draw(st.booleans()):
        return plan
    operation = draw(st.sampled_from(operations))
    free = list(draw(st.permutations([name for name, size in plan.mesh.axes if size > 1])))
    choices = [draw(st.sampled_from("?-x")) for _ in operation.shape]
    dims = tuple(None if choice == "?" else (free.pop(),) if choice == "x" and free else () for choice in choices)
    return plan.apply(Constrain(f"/{operation.path}", Sharding(dims)))


def points(replay: Propagation) -> list[AxisOnDim]:
    return [
        AxisOnDim(number, dim, axis)
        for number, site in enumerate(replay.values)
        if replay.one[number] == number
        for dim, axes in enumerate(site.sharding.dims)
        for axis in axes
    ]


def without(plan, origin: Origin):
    """The plan without the axis that an origin put there, all else as it was."""
    layout, axis = plan.layout, base_axis(origin.axis)

    def less(sharding: Sharding) -> Sharding:
        return Sharding(tuple(dim and tuple(each for each in dim if each != axis) for dim in sharding.dims))

    if origin.kind == "argument":
        return plan.apply(Override(origin.path, less(layout.override(origin.path))))
    [(pattern, sharding)] = layout.constraints
    return plan.apply(Constrain(pattern, less(sharding)))


def name(origin: Origin) -> tuple[str, str, int, str]:
    return origin.kind, origin.path, origin.axis_on_dim.dim, base_axis(origin.axis)


def assert_law(plan, replay: Propagation, axis_on_dim: AxisOnDim) -> None:
    told = replay.axis(*axis_on_dim)
    after = propagation_of(without(plan, told.origin))
    left = [
        axis
        for axis in after.values[axis_on_dim.value].sharding.dims[axis_on_dim.dim] or ()
        if base_axis(axis) == base_axis(axis_on_dim.axis)
    ]
    for axis in left:
        assert name(after.origin_of(AxisOnDim(axis_on_dim.value, axis_on_dim.dim, axis))) in map(name, told.others)


@settings(max_examples=60)
@given(constrained(), st.data())
def test_without_its_origin_an_axis_is_gone_or_comes_from_another_that_was_named(plan, data):
    """The law. Let O be the origin that the explanation of axis a on dimension d of value v names. In the plan without O's axis, either no
    part of a splits d of v, or its origin there is among the `others` of the explanation."""
    replay = propagation_of(plan)
    found = points(replay)
    assume(found)
    assert_law(plan, replay, data.draw(st.sampled_from(found)))


REARRANGED = next(each for each in TRACED if each.name == "rearrangements")
MIXED_UP = (  # what broke the law: of several results, Shardy noted what reached any of them on the first
    (REARRANGED, "x:2", "x=[x, -]"),
    (REARRANGED, "x:1 y:2", "x=[y+x, -]"),
    (REARRANGED, "x:4", "x=[x, -]; @/_roll_static/concatenate=[-, -]"),
    (REARRANGED, "x:4", "x=[x, -]; @/_roll_static/concatenate=[?, x]"),
    (REARRANGED, "x:2", "x=[x, -]; @/cumsum/reduce_window_sum=[?, ?]"),
    (TRACED[-1], "x:2", "args_0=[-, x]; args_1=[x, -]"),
    (TRACED[-1], "x:4 y:1 z:1", "args_0=[-, x+z]; args_1=[-, -]"),
    (TRACED[-1], "x:2", "args_0=[-, x]; args_1=[x, -]; @/grad/transpose=[?, ?]"),
)


@pytest.mark.parametrize(("program", "mesh", "layout"), MIXED_UP)
def test_the_law_holds_of_every_axis_where_it_once_was_broken(program, mesh, layout):
    plan = Plan(program, mesh, layout)
    replay = propagation_of(plan)
    assert {origin.kind for origin in replay.origins.values()} <= {"argument", "constraint"}  # nothing is asked of a result
    for axis_on_dim in points(replay):
        assert_law(plan, replay, axis_on_dim)


def test_a_plan_whose_records_once_ended_the_process_is_explained():
    """Two operations behind the constraint are read by nobody: Shardy erased them, and wrote its record of the first where it had been."""
    text = Plan(build("gpt"), "data:4", "@/loss/eq=[data, -, -]").report().explain("loss/eq")
    assert "`data` is from `@/loss/eq=[data, -, -]`" in text


@settings(max_examples=30)
@given(constrained())
def test_what_is_erased_first_changes_no_sharding_and_nothing_is_erased_later(plan):
    """Shardy erases and folds as it goes. Were anything left of that while it records, it would write over memory that is not its own."""
    *erasing, propagating = (
        each.replace("debug-propagation-edge-sharding=true", "keep-sharding-rules=true") for each in recording_passes(plan)
    )
    plain, recorded = annotated_module(plan), annotated_module(plan)
    run_passes(plain, ",".join(propagating_passes(plan)))
    run_passes(recorded, ",".join(erasing).replace("{keep-sharding-rules=true}", ""))
    before = len([*operations_below(main_function(recorded))])
    run_passes(recorded, propagating)
    assert len([*operations_below(main_function(recorded))]) == before
    assert str(recorded) == str(plain)


@settings(max_examples=60)
@given(constrained())
def test_every_axis_has_a_path_from_its_origin_in_which_each_step_reads_what_was_there(plan):
    replay = propagation_of(plan)
    for axis_on_dim in points(replay):
        origin, path = replay.trace(axis_on_dim)
        assert base_axis(origin.axis) == base_axis(axis_on_dim.axis)
        assert origin.kind in ("argument", "constraint", "result")
        assert [move.step for move in path] == sorted({move.step for move in path})
        at = origin.axis_on_dim
        for move in path:
            assert (move.source, move.source_dim) == (at.value, at.dim)
            assert base_axis(move.axis) == base_axis(at.axis)
            at = move.axis_on_dim
        assert at == axis_on_dim


@settings(max_examples=30)
@given(constrained())
def test_the_replay_only_ever_adds_axes(plan):
    replay = propagation_of(plan)
    states = [replay.at(step) for step in range(len(replay.steps) + 1)]
    assert states[-1] == tuple(site.sharding for site in replay.values)
    for before, after in pairwise(states):
        assert all(set(then.axes) <= set(now.axes) for then, now in zip(before, after, strict=True))
        assert before != after


@settings(max_examples=30)
@given(constrained())
def test_a_wish_that_lost_is_of_an_axis_that_its_giver_has_and_the_value_has_not(plan):
    replay = propagation_of(plan)
    for number in range(len(replay.values)):
        for rejected in replay.rejections(number):
            site, giver = replay.values[rejected.wanted.value], replay.values[rejected.giver.value]
            assert rejected.giver.axis in giver.sharding.dims[rejected.giver.dim]
            assert rejected.wanted.axis not in (site.sharding.dims[rejected.wanted.dim] or ())
            assert rejected.reason in REASONS
            assert rejected.origin == replay.trace(rejected.giver)[0]
