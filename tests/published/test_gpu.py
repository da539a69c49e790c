"""What was measured on one H100 (`benchmarks/results/h100.json`): the file agrees with itself, and with what is predicted today."""

import json
from pathlib import Path

import pytest

from benchmarks.gpu_cases import LAYERS, ZOO
from benchmarks.gpu_predictions import compare_all, summarize

MEASURED = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "h100.json").read_text(encoding="utf-8"))
STEPS = [row for row in MEASURED["eager"] if "ratio" in row]


def rates(**rows):
    return {"rates": {"products": [], "attentions": [], "passes": [], **rows}}


def test_every_ratio_is_predicted_over_measured():
    rows = [*MEASURED["products"], *MEASURED["passes"], *STEPS, *(row for row in MEASURED["xla"] if "ratio" in row)]
    assert len(rows) > 150
    assert [row["ratio"] for row in rows] == pytest.approx([row["predicted"] / row["seconds"] for row in rows], rel=2e-3)


def test_the_summary_is_that_of_the_rows():
    again = summarize(MEASURED)
    assert again.keys() == MEASURED["summary"].keys()
    for name, row in again.items():
        assert row == pytest.approx(MEASURED["summary"][name], rel=2e-3)


def test_all_layers_ran_eagerly_and_the_parts_of_a_step_are_its_kernels():
    assert {str(case) for case in LAYERS} <= {row["case"] for row in STEPS if row["way"] == "eager"}
    recorded = [row for row in STEPS if row["way"] == "graph"]
    assert [sum(row["parts"].values()) for row in recorded] == pytest.approx([row["busy"] for row in recorded], rel=2e-3)
    assert [row["busy"] for row in recorded] == pytest.approx([row["seconds"] for row in recorded], rel=0.05)


def test_a_kernel_is_predicted_as_its_entry_says():
    product = {"direction": "forward", "rows": 8192, "columns": 8192, "summed": 8192, "seconds": 2 * 8192**3 / 700e12}
    attention = {"batch": 4, "heads": 16, "seq": 4096, "d_head": 128, "kernel": "FlashAttention-2", "forward": 1e-3, "backward": 2.5e-3}
    passed = {"pass": "add", "megabytes": 64, "bytes": 3 * 2**26, "seconds": 1e-4}
    found = compare_all(rates(products=[product], attentions=[attention], passes=[passed]))
    assert found["products"][0]["tflops"] == pytest.approx(700, rel=1e-3)
    assert 1.0 < found["products"][0]["ratio"] < 1.3  # no less than the peak times the share of the catalogue allows
    assert found["attentions"][0]["forward_tflops"] == pytest.approx(2 * 4 * 16 * 4096**2 * 128 / 1e-3 / 1e12, rel=1e-3)
    assert found["passes"][0]["tb_per_s"] == pytest.approx(2.013, rel=1e-3)


@pytest.mark.compile
def test_large_steps_are_predicted_within_a_fifth_and_their_memory_within_a_twentieth():
    """The largest in its memory, and one of few tokens, as they were measured."""
    chosen = [{**row, "case": LAYERS[place]._asdict(), "by_kernel": []} for place in (5, 11) for row in STEPS if _is(row, place)]
    found = compare_all({**rates(), "eager": chosen})["eager"]
    assert len(found) == 2
    assert all(0.85 < row["ratio"] < 1.2 for row in found)
    assert all(0.95 < row["memory_ratio"] < 1.05 for row in found)


def _is(row, place):
    return row["case"] == str(LAYERS[place]) and row["way"] == "eager"


@pytest.mark.compile
def test_a_program_of_the_zoo_is_predicted_and_one_that_did_not_run_is_kept():
    """Its kernels, started together, have no names."""
    row = next(row for row in MEASURED["xla"] if row.get("case") == str(ZOO[0]))
    failed = {"name": str(ZOO[1]), "error": "out of memory"}
    found = compare_all(
        {**rates(), "xla": [{**row, "by_kernel": [{"kind": "kernel", "path": "command_buffer_1", "seconds": 1.0}]}, failed]}
    )["xla"]
    assert 0.8 < found[0]["ratio"] < 1.25
    assert "scopes" not in found[0]
    assert found[1] == failed
