import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs import parameter
from tests.support.strategies import AXES, DIMS, layouts, patterns, shardings
from workbench.core.layout import Layout
from workbench.core.sharding import Sharding
from workbench.errors import LayoutError


@pytest.mark.compile
@given(layouts())
def test_a_layout_prints_as_it_is_written(layout):
    assert Layout(str(layout)) == layout
    assert eval(repr(layout)) == layout


@pytest.mark.parametrize(
    "text", ["batch:rows;hidden:cols", "batch:rows,hidden:cols", "batch:rows; hidden:cols", "batch : rows\nhidden: cols;"]
)
def test_mesh_tensorflow_notation_is_read(text):
    assert Layout(text).rules == (("batch", ("rows",)), ("hidden", ("cols",)))


def test_a_mapping_of_names_is_a_layout():
    assert Layout({"batch": ("data", "pipe"), "d_ff": "model"}) == Layout("batch:data+pipe; d_ff:model")


def test_an_empty_rule_is_none():
    assert Layout({"batch": ()}) == Layout("") == Layout()


def test_one_axis_may_serve_several_dimensions():
    assert Layout("d_ff:model; heads:model").rule("heads") == ("model",)


@pytest.mark.parametrize(
    "text", ["batch", "batch:", ":data", "a b:c", "w=[x", "w=x]", "batch:data; batch:model", "batch:data+data", "batch:data+"]
)
def test_what_is_no_layout_is_refused(text):
    with pytest.raises(LayoutError):
        Layout(text)


def test_an_override_counts_for_the_tensors_its_pattern_matches_and_no_others():
    layout = Layout("d_ff:model; params/head=[-, data]")
    assert layout.sharding(parameter("params/head", d_model=8, d_ff=8)) == Sharding.parse("[-, data]")
    assert layout.sharding(parameter("params/other", d_model=8, d_ff=8)) == Sharding.parse("[-, model]")


def test_rules_that_contradict_each_other_only_where_an_override_holds_are_legal():
    layout = Layout("d_ff:model; d_model:model; params/head=[-, data]")
    head, bias = parameter("params/head", d_model=8, d_ff=8), parameter("params/bias", d_ff=8)
    assert layout.shardings((head, bias)) == (Sharding.parse("[-, data]"), Sharding.parse("[model]"))
    with pytest.raises(LayoutError, match="twice"):
        layout.shardings((head, parameter("params/other", d_model=8, d_ff=8)))


def test_the_last_override_that_matches_wins():
    layout = Layout("layers/*/w=[data]; layers/3/w=[model]")
    assert [str(layout.override(f"params/layers/{i}/w")) for i in (2, 3)] == ["[data]", "[model]"]


def test_an_override_given_twice_counts_once_the_last_one():
    assert Layout("w=[data]; v=[-]; w=[model]") == Layout("v=[-]; w=[model]")


@pytest.mark.compile
@given(layouts(), st.sampled_from(DIMS), st.lists(st.sampled_from(AXES), unique=True, max_size=2).map(tuple))
def test_with_rule_sets_that_rule_and_no_other(layout, dim, axes):
    changed = layout.with_rule(dim, axes)
    assert changed.rule(dim) == axes
    assert all(changed.rule(other) == layout.rule(other) for other in DIMS if other != dim)
    assert (changed.overrides, changed.constraints) == (layout.overrides, layout.constraints)


def test_a_rule_that_moves_keeps_its_place():
    assert str(Layout("a:x; b:y; c:z").with_rule("b", ("w",))) == "a:x; b:w; c:z"


@pytest.mark.compile
@given(layouts(), patterns(), shardings())
def test_an_override_and_a_constraint_can_be_set_and_taken_back(layout, pattern, sharding):
    assert layout.with_override(pattern, sharding).overrides[-1] == (pattern, sharding)
    assert layout.with_constraint(pattern, sharding).constraints[-1] == (pattern, sharding)
    gone = layout.with_override(pattern, None).with_constraint(pattern, None)
    assert pattern not in dict(gone.overrides)
    assert pattern not in dict(gone.constraints)


@given(layouts())
def test_renaming_axes_there_and_back_changes_nothing(layout):
    there = {axis: f"{axis}_new" for axis in AXES}
    back = {new: old for old, new in there.items()}
    assert layout.map_axes(there).map_axes(back) == layout


@pytest.mark.compile
@given(layouts(), st.sampled_from(AXES))
def test_a_dropped_axis_is_nowhere(layout, axis):
    dropped = layout.map_axes({axis: None})
    assert all(axis not in axes for _, axes in dropped.rules)
    assert all(axis not in sharding.axes for _, sharding in dropped.overrides + dropped.constraints)
