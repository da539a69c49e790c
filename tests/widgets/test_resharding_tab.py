"""The tab of resharding: each edge with its way and cost, edits that are tried when asked and applied by a click; padding; own notes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

from tests.support.resharding import reproducer, resharded, settled
from tests.support.scripted import compiled
from workbench.analysis.tier_comparison import Comparison
from workbench.public_plan import Plan
from workbench.reports.compiled import Rematerialised
from workbench.reports.reshard import CLASS_TEXTS
from workbench.session.plan_history import Session
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.tracing import trace
from workbench.widgets.board.board import Board
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.glossary.glossary import GROUPS
from workbench.widgets.tabs.resharding_tab import padding_blocks, resharding_blocks, try_edits
from workbench.widgets.tabs.source_context import source_annotation_blocks
from workbench.widgets.tabs.table_blocks import Paint

PAINT = Paint({"r": 0, "c": 1})


@pytest.fixture(scope="module")
def plan() -> Plan:
    return reproducer()


def table(report, comparison_state=None) -> dict:
    return next(block for block in resharding_blocks(report, comparison_state, PAINT) if block["title"] == "Resharded values")


def remedies(row: dict) -> dict:
    return row["cells"][-1]


def test_an_edge_is_told_with_its_ends_its_way_and_what_it_takes(plan):
    (row,) = table(settled(plan))["rows"]
    ends, lies, way, sent, held, _ = row["cells"]
    assert [each["path"] for each in ends["stack"]] == ["sharding_constraint"] * 2
    assert all(each["beside"].startswith("resharding.py:") for each in ends["stack"])
    assert [[tag["name"] for tag in each["dims"]] for each in lies["stack"]] == [["a:r", "b", "c:c"], ["a", "b:c+r", "c"]]
    assert lies["stack"][1]["dims"][1]["colours"] == [1, 0]
    assert way["stack"][0]["terms"] == ["gathered whole, then sliced"]
    assert [each["lead"] for each in way["stack"][1:]] == ["all-gather", "all-gather"]
    assert (sent["stack"][0]["text"], held["stack"][0]["text"]) == ("896 KiB", "1.50 MiB")


def test_what_is_gathered_whole_stands_first_and_out_once_xla_has_said_so(plan):
    assert table(plan.report())["rows"][0]["tone"] == ""
    assert table(settled(plan))["rows"][0]["tone"] == "bad"
    assert table(resharded("[r, -, -]", "[-, r, -]").report())["rows"][0]["tone"] == ""


def test_every_way_is_explained_in_the_glossary():
    known = {label for _, terms in GROUPS for term in terms for label in term.on}
    assert set(CLASS_TEXTS.values()) <= known


def test_edits_are_tried_when_asked_applied_by_a_click_and_the_row_is_gone(plan):
    shown, session = {}, Session(plan)
    session.use_partitioned(session.node.number, ask_partitioner(plan))
    board = Board(session, shown.__setitem__, runner=None)
    board.answer({"verb": "open", "tab": "resharding", "view": "v", "seq": 1})
    row = shown["table"]["blocks"][1]["rows"][0]
    assert [remedy["note"] for remedy in remedies(row)["remedies"]] == ["avoids it"]  # what the note on it found already
    assert remedies(row)["find"] == "Try more edits"
    try_edits(row["key"], session.report)
    board.answer({"verb": "refresh", "view": "v", "seq": 2})
    found = remedies(shown["table"]["blocks"][1]["rows"][0])
    assert found["find"] == ""
    assert found["remedies"][0]["note"] == "−736 KiB a step"
    assert found["remedies"][0]["held"] == "−1.25 MiB at the peak"
    before = session.report.sent
    board.answer({"verb": "mend", "edit": found["remedies"][0]["edit"], "view": "v", "seq": 3})
    assert before - session.report.sent == 736 * 1024
    assert all(row["tone"] != "bad" for row in table(session.report)["rows"])
    board.answer({"verb": "undo", "view": "v", "seq": 4})
    assert session.report.sent == before


def test_nothing_is_looked_for_while_another_tab_is_open(plan):
    shown, session = {}, Session(plan)
    Board(session, shown.__setitem__).answer({"verb": "open", "tab": "devices", "view": "v", "seq": 1})
    assert {"reshards", "padding", "source_annotations"} & set(vars(session.report)) == set()


def test_a_resharding_that_is_gone_is_not_tried(plan):
    shown = {}
    Board(Session(plan), shown.__setitem__).answer({"verb": "try_edits", "key": "gone", "zone": "tools", "view": "v", "seq": 1})
    assert "no longer" in shown["board"]["refusal"]["message"]


def test_the_compilers_own_warnings_stand_beside_what_was_foreseen(plan):
    report = settled(plan)
    warned = (
        Rematerialised("sharding_constraint", "copy.1", "f32[32,64,16]", "{a}", "{b}"),
        Rematerialised("other", "x", "f32[]", "{}", "{}"),
    )
    found = ComparisonState(Comparison(report, replace(compiled(plan), rematerialised=warned), None))
    block = next(each for each in resharding_blocks(report, found, PAINT) if "compiler warnings" in each["title"])
    assert [row["cells"][-1]["text"] for row in block["rows"]] == ["yes", "no"]
    silent = ComparisonState(Comparison(report, compiled(plan), None))
    assert any("no compiler warning" in each["note"] for each in resharding_blocks(report, silent, PAINT))
    assert not any("warn" in each["note"] for each in resharding_blocks(report, silent._replace(stale=True), PAINT))


def test_a_plan_that_reshards_nothing_says_so():
    said, free = resharding_blocks(resharded("[r, -, -]", "[r, -, -]").report(), None, PAINT)
    assert said["note"].startswith("No resharding")
    assert free["title"].startswith("Free: ")  # the argument is whole, and each device keeps a part of it


def test_padding_is_told_with_its_waste_the_sizes_that_divide_and_edits():
    program = trace(lambda x: jnp.sin(x).sum(), jax.ShapeDtypeStruct((9, 4), jnp.float32), dims={"x": "rows width"}, name="nine")
    (block,) = padding_blocks(Plan(program, "data:8", "@sin=[data, -]").report(), Paint({"data": 0}))
    (row,) = block["rows"]
    cells = dict(zip((column["label"] for column in block["columns"]), row["cells"], strict=True))
    assert (cells["dimension"], cells["mesh axis"]["axes"][0]) == ("rows=9", {"name": "data", "colour": 0})
    assert cells["parts"] == {"text": "8 × 2", "title": "9 over `data` (8): 8 parts of 2, 16 slots for 9, 3 of them empty"}
    assert cells["waste"] == "44%"
    assert cells["sizes"] == "8 or 16 divide by 8"
    assert cells["fix"]["edits"]


def test_what_the_function_lays_out_itself_is_drawn_in_the_colours_of_its_axes():
    mesh = jax.sharding.AbstractMesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def layer(x: jax.Array, w: jax.Array) -> jax.Array:
        x = jax.lax.with_sharding_constraint(x, jax.sharding.NamedSharding(mesh, P("data", None)))
        product = jax.shard_map(
            lambda a, b: jax.lax.psum(a @ b, "model"),
            mesh=mesh,
            in_specs=(P(None, "model"), P("model")),
            out_specs=P(),
            axis_names={"model"},
        )
        return jnp.tanh(product(x, w))

    shapes = (jax.ShapeDtypeStruct((16, 64), jnp.float32), jax.ShapeDtypeStruct((64, 32), jnp.float32))
    program = trace(layer, *shapes, dims={"x": "batch d", "w": "d f"}, name="own")
    (block,) = source_annotation_blocks(Plan(program, "data:4 model:2", "batch:data").report(), Paint({"data": 0, "model": 1}))
    assert block["title"] == "Sharded by the function itself, over data:4 model:2"
    region, constraint = block["rows"]
    assert region["cells"][0]["stack"][1] == {"axes": [{"name": "model", "colour": 1}], "lead": "manual over"}
    assert [tag["name"] for tag in constraint["cells"][2]["dims"]] == ["16:data", "64"]
    assert constraint["cells"][2]["dims"][0]["colours"] == [0]


def test_a_function_that_says_nothing_has_no_such_block(plan):
    assert list(source_annotation_blocks(resharded("[r, -, -]", "[r, -, -]").report(), PAINT)) == []
    assert len(list(source_annotation_blocks(plan.report(), PAINT))) == 1
