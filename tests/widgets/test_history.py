"""The history on the board: the tree, names and pins, two plans side by side."""

import pytest

from tests.support.machines import flat
from tests.widgets.test_board import Screen
from workbench.analysis.plan_diff import PlanDiff
from workbench.plan.edits import ShardDim
from workbench.plan.mesh_edits import ResizeAxis
from workbench.session.plan_history import HistoryNode, Session
from workbench.widgets.tabs.history_tab import MOST_NODES, diff_blocks, lanes_of


@pytest.fixture
def screen(session) -> Screen:
    """start - hidden → model; start - io → model - batch → whole, and the last one is present."""
    screen = Screen(session)
    for edit in (ShardDim("hidden", ("model",)), None, ShardDim("io", ("model",)), ShardDim("batch")):
        session.apply(edit) if edit else session.undo()
    screen.send("history")
    return screen


def nodes(screen) -> dict[int, dict]:
    return {node["number"]: node for node in screen.shown["board"]["history"]["nodes"]}


def test_a_closed_history_tells_how_many_plans_it_has_and_no_more(session):
    screen = Screen(session)
    session.apply(ShardDim("hidden", ("model",)))
    shown = screen.shown["board"]["history"]
    assert (shown["open"], shown["count"], shown["nodes"], shown["compared"]) == (False, 2, [], None)


def test_plans_stand_newest_first_with_their_edits_and_the_branch_in_a_lane_of_its_own(screen):
    shown = nodes(screen)
    assert list(shown) == [3, 2, 1, 0]
    assert [node["edit"] for node in shown.values()] == ["batch → whole", "io → model", "hidden → model", "start"]
    assert [(node["parent"], node["lane"]) for node in shown.values()] == [(2, 1), (0, 1), (0, 0), (None, 0)]
    assert [node["here"] for node in shown.values()] == [True, False, False, False]
    assert screen.send("history", open=False)["history"]["nodes"] == []


def test_the_figures_of_a_plan_say_better_or_worse_than_the_one_it_was_made_of(screen):
    shown = nodes(screen)
    assert [figure["label"] for figure in shown[0]["figures"]] == ["peak", "sent"]
    assert [figure["tone"] for figure in shown[0]["figures"]] == ["", ""]
    assert shown[1]["figures"][0]["tone"] == "good"
    screen.send("go", number=1)
    screen.send("whole", dim="hidden")
    assert nodes(screen)[4]["figures"][0]["tone"] == "bad"


def test_times_are_among_the_figures_once_the_hardware_is_known(screen, session):
    session.use_hardware(flat("test", flops=1e12, memory_bandwidth=1e11, sent_bandwidth=1e10, latency=1e-6, memory=1 << 34))
    shown = nodes(screen)
    assert [figure["label"] for figure in shown[3]["figures"]] == ["peak", "sent", "step"]
    assert shown[1]["figures"] == [], "what was analysed for other hardware is not told"


def test_one_goes_to_any_plan_and_nothing_is_lost(screen, session):
    state = screen.send("go", number=1)
    assert state["layout"] == "batch:data; hidden:model"
    assert nodes(screen)[1]["here"]
    assert state["history"]["count"] == 4
    assert screen.send("go", number=3)["layout"] == "io:model"


def test_a_plan_is_named_and_pinned(screen):
    screen.send("name_plan", number=1, name="Megatron")
    screen.send("pin", number=1, pinned=True)
    assert (nodes(screen)[1]["name"], nodes(screen)[1]["pinned"]) == ("Megatron", True)
    screen.send("pin", number=1, pinned=False)
    assert not nodes(screen)[1]["pinned"]


def test_naming_a_plan_leaves_the_deltas_of_the_last_edit_on_the_board(screen):
    before = screen.shown["board"]["figures"]
    assert any(figure["delta"] for figure in before)
    assert screen.send("name_plan", number=0, name="a")["figures"] == before


@pytest.mark.parametrize("number", [None, -1, 4, "1", True, 10**12])
@pytest.mark.parametrize("verb", ["go", "name_plan", "pin", "compare_plans"])
def test_a_plan_that_is_not_there_is_refused_under_the_head(screen, session, verb, number):
    refusal = screen.send(verb, number=number)["refusal"]
    assert (refusal["zone"], refusal["ways_out"]) == ("tools", ["see the current history"])
    assert session.node.number == 3


def test_a_picked_plan_is_compared_with_the_present_one_as_it_changes(screen, session):
    compared = screen.send("compare_plans", number=1)["history"]["compared"]
    assert (compared["first"], compared["second"]["number"], compared["follows"]) == ({"number": 1, "label": "hidden → model"}, 3, True)
    screen.send("name_plan", number=1, name="Megatron")
    screen.send("undo")
    compared = screen.shown["board"]["history"]["compared"]
    assert (compared["first"]["label"], compared["second"]["number"]) == ("Megatron", 2)
    assert compared["text"] == str(PlanDiff(session.report_of(1), session.report))


def test_a_second_pick_stays_and_picks_are_swapped_and_let_go(screen):
    def picked(state):
        compared = state["history"]["compared"]
        return compared and (compared["first"]["number"], compared["second"]["number"], compared["follows"])

    screen.send("compare_plans", number=1)
    assert picked(screen.send("compare_plans", number=2)) == (1, 2, False)
    assert [nodes(screen)[number]["picked"] for number in range(4)] == ["", "A", "B", ""]
    assert picked(screen.send("undo")) == (1, 2, False)
    assert picked(screen.send("swap_plans")) == (2, 1, False)
    assert picked(screen.send("compare_plans", number=1)) == (2, 2, True), "the present plan is plan 2 now"
    assert picked(screen.send("compare_plans", number=2)) is None


def test_a_difference_is_shown_in_the_colours_of_the_axes(screen, session):
    changes, figures, *others = diff_blocks(PlanDiff(session.report_of(0), session.report_of(1)))
    (rule,) = changes["rows"]
    assert rule["cells"][1]["text"] == "hidden"
    assert rule["cells"][-1] == {"axes": [{"name": "model", "colour": 1}]}
    peak = figures["rows"][0]["cells"]
    assert (peak[0]["text"], peak[3]["tone"], peak[4]["tone"]) == ("peak memory", "good", "good")
    assert peak[4]["pair"][0] == 1.0 > peak[4]["pair"][1]
    assert [block["title"] for block in others] == ["Payload per device and step that changed", ""]
    weights = next(row for row in others[1]["rows"] if row["cells"][0]["path"] == "w")
    assert [(tag["name"], tag["colours"]) for tag in weights["cells"][2]["dims"]] == [("io", []), ("hidden", [1])]


def test_equal_plans_are_told_and_their_figures_shown(session):
    note, figures = diff_blocks(PlanDiff(session.report, session.report))
    assert note["note"] == "The two plans are identical."
    assert {row["cells"][3]["text"] for row in figures["rows"]} == {"same"}


def test_a_long_history_lists_the_newest_and_what_was_named(session):
    for place in range(MOST_NODES + 9):
        session._nodes.append(HistoryNode(place + 1, session.plan, place, ResizeAxis("data", 4)))
    session.go(MOST_NODES + 9)
    session.name(3, "kept")
    shown = Screen(session).send("history")["history"]
    numbers = [node["number"] for node in shown["nodes"]]
    assert len(numbers) == MOST_NODES + 2
    assert numbers[-3:] == [10, 3, 0]
    assert shown["note"].startswith("8 older plans are not listed")


def tree(*parents: int | None) -> tuple[HistoryNode, ...]:
    return tuple(HistoryNode(number, None, parent) for number, parent in enumerate(parents))


@pytest.mark.parametrize(
    ("parents", "lanes"),
    [
        ((None,), (0,)),
        ((None, 0, 1, 2), (0, 0, 0, 0)),
        ((None, 0, 0, 0), (0, 0, 1, 2)),
        ((None, 0, 0, 1, 2, 1), (0, 0, 1, 0, 1, 2)),
        ((None, 0, 0, 1, 3, 4, 4), (0, 0, 1, 0, 0, 0, 1)),  # the second lane ended before the branch at 4: it is used again
    ],
)
def test_branches_have_lanes_and_a_lane_that_ended_is_used_again(parents, lanes):
    assert tuple(lanes_of(tree(*parents)).values()) == lanes


@pytest.mark.parametrize("seed", range(20))
def test_no_two_branches_share_a_lane_where_they_overlap(seed):
    import random

    draw = random.Random(seed)
    nodes = tree(None, *(draw.randrange(number) for number in range(1, 40)))
    lanes = lanes_of(nodes)
    for node in nodes[1:]:
        between = range(node.parent + 1, node.number)
        assert not [each for each in between if lanes[each] == lanes[node.number]], "a line would run through another plan"


def test_two_boards_of_one_session_see_each_others_names(session):
    first, second = Screen(session), Screen(session)
    second.send("history")
    first.send("name_plan", number=0, name="start here")
    assert second.shown["board"]["history"]["nodes"][0]["name"] == "start here"
    assert first.shown["board"]["history"]["open"] is False


def test_the_history_of_code_that_ran_before_the_board_is_there(two_layer):
    from workbench.public_plan import Plan

    session = Session(Plan(two_layer, "data:4"))
    session.apply(ShardDim("batch", ("data",)))
    shown = Screen(session).send("history")["history"]["nodes"]
    assert [(node["edit"], len(node["figures"])) for node in shown] == [("batch → data", 2), ("start", 2)]
