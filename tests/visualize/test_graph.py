"""The graph of a step: collapsed by scope, opened level by level, drawn where Graphviz is and told where it is not."""

import itertools
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.support.details import with_details
from tests.support.steps import GRAPH, node, step_report
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.kernel import Graph
from workbench.visualize import graph
from workbench.visualize.draw import graphviz_layout, palette
from workbench.visualize.draw.collapse_scopes import MOST_BOXES, choose_open_scopes, collapse, scopes_of
from workbench.visualize.draw.drawing_marks import text_width
from workbench.visualize.graph import dot_of, heat_colour, shown_graph
from workbench.visualize.graph_boxes import collect_pills


@pytest.fixture(scope="module")
def gpt():
    return Plan(build("gpt", scan=True), "data:4 model:2", "batch:data; d_ff:model; heads:model").report()


def keys(opened) -> list[str]:
    return [box.key for box in collapse(GRAPH, opened).boxes]


def test_a_closed_graph_has_a_box_for_each_outermost_scope_and_repeated_layers_are_one():
    assert keys(()) == ["batch/x", "layers", "loss", "grad"]
    assert keys(("layers",)) == ["batch/x", "layers/*", "loss", "grad"]
    assert keys(("layers", "layers/*")) == ["batch/x", "layers/*/norm", "layers/*/mlp", "loss", "grad"]


def test_kernels_of_one_scope_and_name_are_one_box_that_does_not_open():
    boxes = {box.key: box for box in collapse(GRAPH, scopes_of(GRAPH)).boxes}
    up = boxes["layers/*/mlp/up/dot_general"]
    assert (up.members, up.can_open, up.scope) == ((1, 4), False, "layers/*/mlp/up")


def test_every_kernel_is_in_exactly_one_box_whatever_is_open():
    scopes = sorted(scopes_of(GRAPH))
    for count in range(len(scopes) + 1):
        for opened in itertools.combinations(scopes, count):
            seen = collapse(GRAPH, opened)
            assert sorted(member for box in seen.boxes for member in box.members) == list(range(len(GRAPH.nodes)))
            assert sum(seen.costs) == pytest.approx(seen.total_cost)


def test_what_is_sent_within_a_box_stands_in_it_and_what_leaves_it_on_the_way():
    seen = collapse(GRAPH, ())
    layers, loss = (keys(()).index(key) for key in ("layers", "loss"))
    assert [(each.kind, each.axes) for each in seen.sends_within(layers)] == [
        ("all-reduce", ("model",)),
        ("all-reduce", ("model",)),
        ("all-gather", ("data",)),
    ]
    assert [each.kind for each in seen.sends[layers, loss]] == ["all-gather"]


def test_an_arrow_that_a_chain_of_others_implies_is_not_drawn():
    seen = collapse(GRAPH, ())
    numbers = {key: place for place, key in enumerate(keys(()))}
    assert (numbers["layers"], numbers["grad"]) in seen.arrows
    assert (numbers["layers"], numbers["grad"]) not in seen.essential_arrows
    assert (numbers["loss"], numbers["grad"]) in seen.essential_arrows


def test_never_more_boxes_than_a_person_can_read():
    many = Graph(tuple(node(f"layer/op{chr(97 + i // 26)}{chr(97 + i % 26)}/mul", 1e-6 * i) for i in range(200)))
    seen = collapse(many, ("layer",))
    assert len(seen.boxes) <= MOST_BOXES
    assert sum(box.rest for box in seen.boxes) + len(seen.boxes) - 1 == 200
    assert seen.boxes[-1].key == "layer/ophr"  # the dearest of all: the last one


def test_counters_of_turns_are_left_out():
    turns = replace(GRAPH, nodes=(*GRAPH.nodes, replace(node("layers/0/add", 1e-9, "[]"), shape=(), dims=(), dtype="int32")))
    assert len([member for box in collapse(turns).boxes for member in box.members]) == len(GRAPH.nodes)


@pytest.mark.compile
def test_what_is_open_at_first_does_not_depend_on_the_process():
    code = (
        "from workbench.visualize.draw.collapse_scopes import choose_open_scopes; from workbench.models import build; "
        "from workbench.public_plan import Plan; "
        "print(sorted(choose_open_scopes(Plan(build('gpt', scan=True), 'data:4', 'batch:data').report().graph)))"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_the_graph_of_a_real_step_knows_its_kernels_and_all_it_sends(gpt):
    assert sum(node.count for node in gpt.graph.nodes if not node.is_input) == gpt.kernels
    assert sum(node.flops for node in gpt.graph.nodes) == gpt.flops.per_device
    assert sum(each.sent for each in gpt.graph.sends) == gpt.sent
    assert sum(each.count for each in gpt.graph.sends) == sum(each.count for each in gpt.collectives)


def test_the_dots_of_a_real_step_lie_in_their_frames(gpt):
    collapsed = collapse(gpt.graph)
    layout = graphviz_layout.layout_dot(dot_of(collapsed, collect_pills(collapsed)))
    assert layout is not None
    assert len(choose_open_scopes(gpt.graph)) >= 2
    for scope, frame in layout.scopes.items():
        inside = [each for key, each in layout.boxes.items() if key.startswith(f"{scope}/")]
        assert inside
        for each in inside:
            assert frame.x <= each.x
            assert each.x + each.width <= frame.x + frame.width
            assert frame.y <= each.y
            assert each.y + each.height <= frame.y + frame.height


def test_the_picture_says_what_opens_and_what_can_be_selected(gpt):
    marks = graph(gpt).drawing.rectangles
    opened = {each.opens for each in marks if each.opens}
    assert opened <= scopes_of(gpt.graph)
    assert choose_open_scopes(gpt.graph) <= opened
    paths = {node.path for node in gpt.graph.nodes}
    assert {each.subject for each in marks if each.subject} <= paths


def test_cost_is_a_colour_with_a_legend():
    shares = (0.0, 0.02, 0.1, 0.2, 0.5)
    assert [heat_colour(share) for share in shares] == list(palette.HEAT)
    texts = [label.text for label in graph(step_report()).drawing.labels]
    assert {"under 1%", "5% to 15%", "30% and more"} <= set(texts)


def test_without_graphviz_in_any_form_the_outline_is_the_picture(monkeypatch):
    monkeypatch.setattr(graphviz_layout, "_run_program", lambda _: None)
    monkeypatch.setattr(graphviz_layout, "_run_module", lambda _: None)
    graphviz_layout.layout_dot.cache_clear()
    made = graph(step_report())
    graphviz_layout.layout_dot.cache_clear()
    assert any("pip install" in label.text for label in made.drawing.labels)


def test_names_with_colons_and_marks_of_html_come_through():
    odd = Graph((node("a:b/<x>&/mul", 1e-6), node("c/mul", 1e-6)), ((0, 1),))
    report = with_details(step_report(), graph=odd)
    made = graph(report, scopes_of(odd))
    assert "a:b" in made.text
    assert "<x>" not in made.svg
    assert len(made.drawing.lines) == 1


def test_what_is_selected_in_the_graph_of_all_stages_has_its_name_in_every_view():
    report = Plan(build("gpt", scan=True), "stage:2 data:2", "batch:data", pipeline="stages:2 micro_batches:4").report()
    known = {each.path for stage in report.stages for each in (*stage.graph.nodes, *stage.graph.sends)}
    between = {"activations between stages", "gradients between stages"}
    nodes = shown_graph(report).nodes
    assert {each.path.split("/")[0] for each in nodes} == {"stage0", "stage1"}
    assert {each.subject for each in (*nodes, *shown_graph(report).sends)} <= known | between
    subjects = set(re.findall(r'data-subject="([^"]*)"', graph(report, opened=scopes_of(shown_graph(report))).svg))
    assert subjects
    assert subjects <= known | between


def test_text_stays_inside_its_box(gpt):
    drawing = graph(gpt, scopes_of(gpt.graph)).drawing
    boxes = [each for each in drawing.rectangles if each.line and (each.subject or each.opens)]
    for label in drawing.labels:
        around = [each for each in boxes if each.x <= label.x <= each.x + each.width and each.y <= label.y <= each.y + each.height]
        for box in around[-1:]:
            reach = {"start": 1.0, "middle": 0.5, "end": 0.0}[label.anchor] * text_width(label.text)
            assert label.x + reach <= box.x + box.width + 1, label.text
