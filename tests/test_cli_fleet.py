"""`workbench fleet`: models from a file are trained or simulated, and what is wrong is said."""

import json

import pytest

from workbench import cli

GRID = """
devices = 2
[[models]]
name = "fit"
program = "tests.importable:regression"
mini_batches = 3
grid = { width = [8, 16] }
"""


@pytest.fixture
def file(tmp_path) -> str:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return str(path)


def test_run_trains_the_models_and_prints_measured_beside_predicted(file, tmp_path, capsys):
    kept = tmp_path / "kept"
    assert cli.main(["fleet", "run", file, "--policy", "round-robin", "--memory", "1 MiB", "--folder", str(kept)]) == 0
    told = capsys.readouterr()
    assert "2 models on 2 devices (cpu), round-robin" in told.out
    for words in (
        "makespan",
        "lower bound",
        "task parallel",
        "predicted, 0 to",
        "measured, 0 to",
        "of 1.00 MiB that may be used",
        "fit-width=16",
    ):
        assert words in told.out
    assert "`fit-width=8` is done" in told.err
    assert (kept / "fit-width=8" / "position.json").exists()


def test_simulate_compares_policies_on_devices_that_are_not_there(file, capsys):
    assert cli.main(["fleet", "simulate", file, "--policy", "all", "--devices", "16", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["makespans"]) == 5
    assert record["devices"] == 16
    assert min(record["makespans"].values()) >= record["bound"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--policy", "longest"], "There is no policy `longest`"),
        (["run", "--policy", "all"], "There is no policy `all`"),
        (["run", "--memory", "lots"], '"lots" is no amount of memory.'),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(file, arguments, message, capsys):
    verb, *rest = arguments
    assert cli.main(["fleet", verb, file, *rest]) == 1
    assert message in capsys.readouterr().err
    assert cli.main(["fleet", "run", f"{file}x"]) == 1
    assert "cannot be read" in capsys.readouterr().err
