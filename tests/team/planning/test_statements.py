"""Which statement an edit changes: edits of different ones both hold, of the same one the later does, and both people are told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.documents.test_edit_records import ONE_OF_EACH
from tests.support.edit_strategies import EDITS
from tests.support.room_sessions import PLAIN_EDITS, first_plan
from workbench.errors import WorkbenchError
from workbench.plan.edits import ALL_EDITS, Constrain, EditGroup, OpenPlan, Override, RenameDim, SetHardware, SetLayout, ShardDim
from workbench.plan.mesh_edits import AddAxis, RemoveAxis, RenameAxis, ResizeAxis, SetMesh
from workbench.plan.propagation_edits import GroupValues, Prioritize, SetBarrier, UngroupValues
from workbench.team.planning.room_edit_log import common_statements, statements_of

ANY = st.one_of(*EDITS.values())


def test_every_kind_of_edit_changes_something():
    assert {type(each) for each in ONE_OF_EACH} == set(ALL_EDITS)
    for each in ONE_OF_EACH:
        assert all(statements_of(each)), each
        assert statements_of(each) or isinstance(each, EditGroup), each


def test_statements_are_in_words():
    edits = (
        ShardDim("d_ff", ("model",)),
        Prioritize("d_ff", 1),
        Override("params/w1", None),
        Constrain("mlp/tanh", None),
        SetBarrier("@mlp", "forward"),
        GroupValues(("w1", "@mlp")),
        AddAxis("pipe", 2),
        SetHardware(None),
        SetLayout(first_plan().layout),
    )
    assert [sorted(statements_of(each)) for each in edits] == [
        ["dimension d_ff"],
        ["the priority of d_ff"],
        ["params/w1"],
        ["@mlp/tanh"],
        ["the barrier at @mlp"],
        ["the group of w1, @mlp"],
        ["mesh axis pipe"],
        ["the hardware"],
        ["everything"],
    ]


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (ShardDim("io", ("model",)), ShardDim("io"), {"dimension io"}),
        (ShardDim("io", ("model",)), ShardDim("hidden", ("model",)), set()),
        (RenameDim("io", "width"), ShardDim("io"), {"dimension io"}),
        (Override("w", None), Constrain("w", None), set()),
        (ResizeAxis("data", 2), RemoveAxis("data"), {"mesh axis data"}),
        (RenameAxis("data", "batch"), ResizeAxis("data", 2), {"mesh axis data"}),
        (GroupValues(("a", "b")), UngroupValues(("a", "b")), {"the group of a, b"}),
        (OpenPlan(first_plan(), ""), ShardDim("io"), {"dimension io"}),
        (SetLayout(first_plan().layout), OpenPlan(first_plan(), ""), {"everything"}),
        (EditGroup("", (ShardDim("io"), ShardDim("hidden"))), EditGroup("", (ShardDim("hidden"), AddAxis("x", 2))), {"dimension hidden"}),
        (EditGroup("", ()), SetMesh(first_plan().mesh), set()),
    ],
)
def test_what_two_edits_have_in_common(one, other, common):
    assert common_statements(one, other) == common_statements(other, one) == common


@given(ANY, ANY)
def test_it_does_not_matter_who_was_first_and_an_edit_has_all_in_common_with_itself(one, other):
    assert common_statements(one, other) == common_statements(other, one)
    assert common_statements(one, one) == statements_of(one)


@given(PLAIN_EDITS, PLAIN_EDITS)
def test_rules_of_different_dimensions_do_not_depend_on_who_was_first(one, other):
    """The claim behind "both hold", of the edits that people make most."""
    if not isinstance(one, ShardDim) or not isinstance(other, ShardDim) or common_statements(one, other):
        return
    orders = [made(first, then) for first, then in ((one, other), (other, one))]
    if None not in orders:
        assert set(orders[0].layout.rules) == set(orders[1].layout.rules)


def made(*edits):
    """The plan after these edits; none where one is illegal."""
    plan = first_plan()
    try:
        for each in edits:
            plan = plan.apply(each)
    except WorkbenchError:
        return None
    return plan
