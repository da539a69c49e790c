"""The benchmark on the contest's instances: its record, and what it says where they are missing."""

import gzip
from pathlib import Path

import pytest

from benchmarks import search_iopddl
from benchmarks.search_iopddl import Instance, measure
from workbench.errors import SearchError

EXAMPLE = Path(__file__).with_name("iopddl_example.json")


def test_a_record_has_cost_bound_and_score(tmp_path, monkeypatch):
    (tmp_path / "asplos-2025-iopddl-example.json.gz").write_bytes(gzip.compress(EXAMPLE.read_bytes()))
    monkeypatch.setattr(search_iopddl, "INSTANCES", (Instance("example", 10, 400, 345),))
    found = measure(quick=False, folder=tmp_path)
    record = found["instances"]["example"]
    assert (record["nodes"], record["feasible"], record["gap"]) == (5, True, 0.0)
    assert record["cost"] == record["bound"]
    assert record["ratio"] == round(345 / record["cost"], 6)
    assert (found["feasible"], found["of"], found["score"]) == (1, 1, round(record["ratio"], 4))


def test_missing_instances_are_said(tmp_path):
    with pytest.raises(SearchError) as error:
        measure(quick=True, folder=tmp_path)
    assert str(error.value) == (
        f"The instance asplos-2025-iopddl-B.json.gz is not in {tmp_path}.\n"
        "  Try: clone https://github.com/google/iopddl and give its benchmarks folder as --instances · leave this benchmark out."
    )
