"""The graph of a replay: one column of rows that fits any screen, each step with its arrows; and what a loop hands round, step by step."""

import itertools

import jax
import jax.numpy as jnp
import pytest

from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.report import Report
from workbench.tracing import trace
from workbench.visualize import graph
from workbench.visualize.graph_boxes import HEIGHT, place_rows
from workbench.visualize.propagation_graph import ARRIVED, lay_out_rows, propagation_graph

WIDEST = 500  # pixels: what a page of 560 has for it


@pytest.fixture(scope="module")
def report() -> Report:
    return Plan(build("gpt", layers=2, seq=16, batch=8, scan=True), "data:4 model:2", "batch:data; d_ff:model").report()


@pytest.fixture(scope="module")
def keyed() -> Report:
    """A random key and one for each example: to the partitioner each has a dimension more, its words."""

    def step(key, keys, x):
        noise = jax.vmap(lambda each: jax.random.normal(each, (8,)))(keys)
        return jax.random.split(key)[0], x * noise + jax.random.normal(key, x.shape)

    key, keys, x = jax.eval_shape(lambda: (jax.random.key(0), jax.random.split(jax.random.key(0), 16), jnp.ones((16, 8))))
    return Plan(trace(step, key, keys, x, dims={"x": "batch width"}), "data:4 model:2", "batch:data; width:model").report()


def test_a_random_key_is_drawn_with_its_words(keyed):
    assert any("key · makes uint32[_=2] on [-]" in each.title for each in graph(keyed).drawing.rectangles)
    sites = keyed.propagation.values
    assert all(len(site.dims) == len(site.shape) == len(site.sharding.dims) == len(site.computed.dims) for site in sites)
    assert {site.path: site.dims for site in sites if "key" in site.path}["keys"] == ("batch", "_")
    for number in range(len(keyed.propagation.steps) + 1):
        assert propagation_graph(keyed, number).drawing.rectangles


def fresh(picture) -> list[str]:
    return [each.title for each in picture.drawing.rectangles if each.title.startswith(ARRIVED)]


def test_every_box_is_a_row_and_no_two_rows_meet(report):
    laid = lay_out_rows(report)
    places = sorted(y for number, (_, y) in laid.rows.places.items() if number not in laid.rows.scopes.values())
    assert len(places) == laid.count + len(laid.parameters)
    assert all(below - above >= HEIGHT for above, below in itertools.pairwise(places))


@pytest.mark.parametrize("opened", [None, frozenset({"layers", "grad", "grad/layers", "layers/mlp", "layers/attention", "optimizer"})])
def test_it_is_as_narrow_with_many_boxes_as_with_few(report, opened):
    assert propagation_graph(report, 0, lay_out_rows(report, opened)).drawing.width <= WIDEST


def test_the_rows_follow_the_program(report):
    laid = lay_out_rows(report)
    height = {box.key: laid.rows.places[number][1] for number, box in enumerate(laid.collapsed.boxes)}
    assert height["batch/tokens"] < height["embedding"] < height["layers/mlp/up"] < height["layers/mlp/down"] < height["head"]
    assert all(height["head"] < y for key, y in height.items() if key.startswith("grad/"))


def test_a_step_marks_where_it_went_and_draws_from_where(report):
    laid, replay = lay_out_rows(report), report.propagation
    plain = len(propagation_graph(report, 0, laid).drawing.lines)
    drawn = 0
    for step in replay.steps[:40]:
        picture = propagation_graph(report, step.number, laid)
        reached = {replay.values[move.target].path for move in step.axis_propagations if replay.values[move.target].role == "value"}
        assert bool(fresh(picture)) >= bool({path for path in reached if path})
        drawn += len(picture.drawing.lines) - plain
    assert drawn > 0


def test_it_begins_with_what_was_put_by_hand_and_ends_as_the_plan_lies(report):
    laid = lay_out_rows(report)
    first, last = propagation_graph(report, 0, laid), propagation_graph(report, None, laid)
    assert "→" not in first.text
    assert "params/layers/mlp/w1" in first.text
    shown = [sharding for sharding in (node.sharding for node in report.graph.nodes) if sharding.axes]
    split = sum(map(len, laid.parameters))
    assert f"{len(shown) + split} of {len(laid.sites) + split} kernels, inputs and parameters" in last.text


def test_a_constraint_is_seen_on_its_value_before_the_first_step(report):
    plan = report.plan.updated(layout="@/layers/mlp/up/dot_general=[?, ?, model]")
    assert "[-, -, model]" in propagation_graph(plan.report(), 0).text


def test_what_a_loop_hands_round_lies_at_each_step_as_the_one_value_it_is(report):
    replay = report.propagation
    tied = [(number, one) for number, one in enumerate(replay.one) if number != one]
    late = [(number, one) for number, one in tied if replay.at(0)[one] != replay.values[one].sharding]
    assert late
    for step in range(0, len(replay.steps) + 1, 7):
        lies = replay.at(step)
        assert [lies[number] for number, _ in tied] == [lies[one] for _, one in tied]
        for number in replay.changes(step) if step else ():
            assert replay.changes(step)[number] == lies[number]


def test_a_graph_without_boxes_has_rows_of_nothing(report):
    from workbench.reports.kernel import Graph
    from workbench.visualize.draw.collapse_scopes import collapse

    assert place_rows(collapse(Graph()), 0, 0.0).places == {}


def test_a_value_without_a_row_of_its_own_is_in_the_frame_of_its_scope(report):
    laid = lay_out_rows(report)
    boxes = {box.key: number for number, box in enumerate(laid.collapsed.boxes)}
    assert (
        laid.collapsed.find_value("layers/mlp/up/dot_general") == laid.collapsed.find_value("layers/mlp/up/tanh") == boxes["layers/mlp/up"]
    )
    assert laid.collapsed.find_value("layers/nowhere/dynamic_slice") == "layers"
    assert laid.collapsed.find_value("layers") == "layers"
    assert laid.collapsed.find_value("nowhere") is None
    reached = [step for step in report.propagation.steps if report.propagation.values[step.axis_propagations[0].target].path == "layers"]
    assert reached
    assert any(title.startswith("→ layers: close it") for title in fresh(propagation_graph(report, reached[0].number, laid)))
