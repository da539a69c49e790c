"""The tensor board: sections by role, layers folded and unfolded, chips, overrides marked, search."""

import json

import pytest

from tests.support.programs import mlp_report
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.report import Report
from workbench.widgets.tabs.table_blocks import Paint
from workbench.widgets.tabs.tensor_table import tensor_blocks

PAINT = Paint({"data": 0, "model": 1})


def rows_of(report: Report, search: str = "", toggled: tuple[str, ...] = ()) -> list[dict]:
    return tensor_blocks(report, PAINT, search, frozenset(toggled))[0]["rows"]


def labels(rows: list[dict]) -> list[str]:
    return [row["section"]["title"] if "section" in row else row["cells"][0]["path"] for row in rows]


def test_tensors_stand_by_role_and_repeated_layers_are_folded():
    shown = ["Parameters", "params/layers[0..1]/w1", "params/layers[0..1]/w2", "Optimizer state", "Inputs", "batch/x"]
    assert labels(rows_of(mlp_report())) == shown


def test_a_folded_row_counts_its_layers_and_sums_their_bytes():
    row = rows_of(mlp_report())[1]
    name, dims, local, count, whole, _ = row["cells"]
    assert (name["count"], row["subject"], row["fold"]["open"]) == ("×2", "params/layers/*/w1", False)
    assert [[axis["name"] for axis in dim["axes"]] for dim in dims["chips"]] == [[], ["model"]]
    assert (local["text"], count["text"], count["title"], whole) == ("8×16", "1.00 KiB", "2 × 512 B on each device", "8×32")


def test_a_section_says_what_it_takes_and_opens_by_its_key():
    section = next(row for row in rows_of(mlp_report()) if row.get("section", {}).get("title") == "Optimizer state")
    assert section["section"]["note"] == "5 tensors · 2.00 KiB per device"
    assert "opt_state/0/mu/layers[0..1]/w1" in labels(rows_of(mlp_report(), toggled=(section["fold"]["key"],)))


def test_a_folded_row_unfolds_into_its_layers():
    key = rows_of(mlp_report())[1]["fold"]["key"]
    rows = rows_of(mlp_report(), toggled=(key,))
    assert labels(rows)[1:4] == ["params/layers[0..1]/w1", "params/layers/0/w1", "params/layers/1/w1"]
    assert [row.get("level") for row in rows[1:4]] == [None, 1, 1]


def test_a_scanned_stack_is_read_as_its_layers():
    report = Plan(build("gpt"), "data:4 model:2", "batch:data").report()
    shown = labels(rows_of(report))
    assert "params/layers[0..3]/mlp/w1" in shown
    assert "batch/tokens" in shown  # a dimension of its name is no stack of layers


def test_layers_that_lie_differently_are_told_apart_and_the_override_is_named():
    rows = rows_of(mlp_report("layers/0/w1=[-, model]"))
    assert labels(rows)[1:4] == ["params/layers/0/w1", "params/layers/1/w1", "params/layers[0..1]/w2"]
    assert [row["cells"][1]["own"] for row in rows[1:4]] == ["override layers/0/w1", "", ""]


@pytest.mark.parametrize(
    ("search", "shown"),
    [
        ("w2 moment-free", []),
        ("layers/1/w1 parameter", ["params/layers/1/w1"]),
        ("BATCH data", ["batch/x"]),
        ("optimizer count", ["opt_state/0/count"]),
    ],
)
def test_a_search_finds_by_path_role_dimension_and_axis_and_opens_what_it_finds(search, shown):
    blocks = tensor_blocks(mlp_report(), PAINT, search)
    assert [label for label in labels(blocks[0]["rows"]) if "/" in label] == shown
    assert bool(shown) or "No tensor matches" in blocks[0]["note"]


@pytest.mark.compile
def test_hundreds_of_tensors_are_few_rows():
    report = Plan(build("gpt", preset="gpt2-small", scan=False), "data:4 model:2", "batch:data; d_ff:model").report()
    assert len(report.arguments) > 300
    text = json.dumps(tensor_blocks(report, PAINT))
    assert len(rows_of(report)) < 40
    assert len(text) < 30_000
