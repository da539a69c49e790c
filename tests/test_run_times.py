"""Each package of tests has a time budget, and a run says which of them exceeds it by half."""

from pathlib import Path

import pytest

from tests.support import run_times
from tests.support.run_times import over_budget, package_of, read_budgets, speed_control

TESTS = Path(__file__).parent


def test_every_package_has_a_budget_and_there_is_none_without_its_package():
    packages = {package_of(f"tests/{file.relative_to(TESTS).as_posix()}::test") for file in TESTS.rglob("test_*.py")}
    assert set(read_budgets()[1]) == {*packages, "docstrings"}


def test_the_budgets_are_those_of_twenty_minutes_on_two_cores_of_the_reference():
    assert sum(read_budgets()[1].values()) <= 2 * 20 * 60


@pytest.mark.parametrize(
    ("nodeid", "package"),
    [
        ("tests/engine/test_worker.py::test_it[a/b::c]", "engine"),
        ("tests/team/rooms/test_kills.py::test_it", "team"),
        ("tests/test_house.py::test_it", "tests"),
        ("workbench/core/mesh.py::workbench.core.mesh.Mesh", "docstrings"),
    ],
)
def test_a_test_belongs_to_the_package_of_its_folder(nodeid, package):
    assert package_of(nodeid) == package


def test_a_package_is_named_from_half_again_of_its_budget_at_the_speed_of_the_machine(tmp_path, monkeypatch):
    file = tmp_path / "time_budgets.toml"
    file.write_text("speed_control = 0.5\n[packages]\ncore = 10\nengine = 100\n")
    monkeypatch.setattr(run_times, "FILE", file)
    assert over_budget({"core": 29, "engine": 300}, 1.0) == []
    assert over_budget({"core": 31, "engine": 300, "new": 1}, 1.0) == [
        "tests of core took 31 s; their budget is 20 s on this machine (10 s x 2.00): see CONTRIBUTING, Add a test without adding a minute",
        "tests of new took 1 s; their budget is 0 s on this machine (0 s x 2.00): see CONTRIBUTING, Add a test without adding a minute",
    ]
    assert len(over_budget({"core": 31, "engine": 301}, 0.5)) == 2


def test_the_speed_control_compiles_each_time():
    assert min(speed_control() for _ in range(2)) > 0.02
