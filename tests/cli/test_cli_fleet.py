"""`workbench fleet`: models from a file are trained or simulated, and what is wrong is said."""

import json
import re

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import workbench as wb
from workbench.cli import fleet_command
from workbench.cli.main import main
from workbench.documents import load_fleet
from workbench.multimodel.training_events import CheckpointNotice

pytestmark = [pytest.mark.compile, pytest.mark.worker]

GRID = """
devices = 2
[[models]]
name = "fit"
program = "tests.support.importable:regression"
mini_batches = 3
grid = { width = [8, 16] }
"""


@pytest.fixture(autouse=True)
def allowed(monkeypatch):
    """The files of these tests name programs of theirs."""
    monkeypatch.setenv("WORKBENCH_ALLOW", "tests")


@pytest.fixture
def file(tmp_path) -> str:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return str(path)


def test_run_trains_the_models_and_prints_measured_beside_predicted(file, tmp_path, capsys):
    kept = tmp_path / "kept"
    assert main(["fleet", "run", file, "--policy", "round-robin", "--memory", "1 MiB", "--folder", str(kept)]) == 0
    told = capsys.readouterr()
    assert "2 models on 2 devices (cpu), round-robin" in told.out
    for words in (
        "makespan",
        "lower bound",
        "task parallel",
        "predicted, 0 to",
        "measured, 0 to",
        "1.00 MiB usable",
        "fit-width=16",
    ):
        assert words in told.out
    assert "`fit-width=8` is done" in told.err
    assert " in all by the current forecast" in told.err
    assert (kept / "fit-width=8" / "position.json").exists()


def test_simulate_compares_policies_on_devices_that_are_not_there(file, capsys):
    assert main(["fleet", "simulate", file, "--policy", "all", "--devices", "16", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["makespans"]) == 5
    assert record["devices"] == 16
    assert min(record["makespans"].values()) >= record["bound"] > 0


def test_simulate_plans_for_hardware_that_is_not_there_and_run_refuses_it(file, capsys):
    assert main(["fleet", "simulate", file, "--hardware", "8 H100", "--json"]) == 0
    told = capsys.readouterr()
    record = json.loads(told.out)
    assert (record["planned_for"], record["devices"], told.err) == ("8 H100", 2, "")
    assert main(["fleet", "simulate", file, "--hardware", "2 nodes of 4 H100", "--link", "node=200 Gb/s", "--devices", "4"]) == 0
    assert "from the cost model of 2 nodes of 4 H100, node=200 Gb/s" in " ".join(capsys.readouterr().out.split())
    assert main(["fleet", "simulate", file, "--hardware", "8 H100", "--devices", "9"]) == 1
    assert "The fleet needs 9 devices; 8 H100 has 8." in capsys.readouterr().err
    assert main(["fleet", "simulate", file, "--link", "node=200 Gb/s"]) == 1
    assert "no hardware is given" in capsys.readouterr().err
    assert main(["fleet", "run", file, "--hardware", "8 H100"]) == 1
    assert "The fleet is planned for 8 H100; the devices here are `cpu`." in capsys.readouterr().err


def test_simulate_sets_the_policy_beside_the_proven_optimum(file, capsys):
    assert main(["fleet", "simulate", file, "--policy", "exact", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    own, exact = record["makespans"]["sharded-lrtf"], record["makespans"]["exact (proven, no transfers)"]
    assert record["bound"] <= exact * 1.001  # the solver counts in ten thousandths of the bound
    assert exact <= own * 1.001
    assert len(record["placed"]["exact (proven, no transfers)"]) == 2 * 3


def test_a_run_of_what_is_done_already_says_so_and_keeps_its_losses(file, tmp_path, capsys):
    kept = str(tmp_path / "kept")
    assert main(["fleet", "run", file, "--devices", "1", "--folder", kept, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["fleet", "run", file, "--devices", "1", "--folder", kept]) == 0
    told = capsys.readouterr()
    assert "All models were trained in an earlier run: 6 units, which their checkpoints hold.\n" in told.out
    assert "2 of 2 models are done from an earlier run" in told.err
    rows = [line.split() for line in told.out.splitlines() if line.startswith(" fit-")]
    assert [row[-1] for row in rows] == ["before", "before"]
    assert [row[-2] for row in rows] == [f"{losses[-1]:.4g}" for losses in first["losses"].values()]
    (tmp_path / "grid.toml").write_text(GRID.replace("mini_batches = 3", "mini_batches = 2"))  # fewer than were done
    assert main(["fleet", "run", file, "--devices", "1", "--folder", kept, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["resumed"], again["makespan"], again["losses"]) == (6, 0.0, first["losses"])
    assert (again["ended"], again["failed"]) == ({}, [])


def test_a_model_that_goes_on_while_another_is_done_tells_them_apart(file, tmp_path, capsys):
    kept = str(tmp_path / "kept")
    assert main(["fleet", "run", file, "--folder", kept]) == 0
    told = capsys.readouterr().out
    assert "\n\na fit-width=8 · b fit-width=16\n\n" in told  # whose the letters of the schedules are
    more = '[[models]]\nname = "more"\nprogram = "tests.support.importable:regression"\nmini_batches = 3\n'
    (tmp_path / "grid.toml").write_text(GRID + more)
    assert main(["fleet", "run", file, "--folder", kept]) == 0
    told = capsys.readouterr()
    assert "2 of 3 models are done from an earlier run" in told.err
    finished = {row[0]: row[5] for line in told.out.splitlines() if len(row := line.split()) > 5 and row[0] in ("more", "fit-width=8")}
    assert finished["fit-width=8"] == "before"
    assert finished["more"] != "before"
    assert "0.00 µs" not in told.out


def test_a_model_that_its_loss_has_stopped_is_told_and_stays_stopped(tmp_path, capsys):
    path = tmp_path / "one.toml"
    model = '[[models]]\nname = "early"\nprogram = "tests.support.importable:regression"\nmini_batches = 6\nstop_below = {}\n'
    path.write_text(model.format(1e9))
    run = ["fleet", "run", str(path), "--devices", "1", "--folder", str(tmp_path / "kept")]
    assert main(run) == 0
    told = capsys.readouterr()
    assert re.search(r"`early` has stopped: loss 14\.\d+ is below its stop_below of 1e\+09", told.err)
    assert "is done" not in told.err
    assert re.search(r" early .* stopped: loss 14\.\d+ is below", told.out)
    assert main(run) == 0
    told = capsys.readouterr()
    assert "All models were trained" in told.out
    assert re.search(r" early .* before +stopped: loss 14\.\d+ is below", told.out)
    path.write_text(model.format(0.001))
    assert main([*run, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["losses"]["early"]) == 6


def line(data) -> wb.Program:
    """A slope fitted to points."""

    def loss(params, batch):
        return jnp.mean((params["a"] * batch["x"] - 1) ** 2)

    return wb.trace_training(loss, {"a": jnp.zeros(())}, data(0), optimizer=optax.sgd(0.1), data=data, name="line")


def diverging() -> wb.Program:
    """Its loss is not a number from the third mini-batch on."""
    return line(lambda step: {"x": np.full(8, np.nan if step == 2 else 1, np.float32)})


def broken() -> wb.Program:
    """Its data fail at the fourth mini-batch."""

    def data(step):
        if step == 3:
            raise ValueError("bad record 3")
        return {"x": np.ones(8, np.float32)}

    return line(data)


ILL = """
devices = 1
[[models]]
name = "ill"
program = "tests.cli.test_cli_fleet:{}"
mini_batches = 5
[[models]]
name = "sound"
program = "tests.support.importable:regression"
mini_batches = 5
"""


def test_a_loss_that_is_not_a_number_is_told_when_it_comes_and_in_the_table(tmp_path, capsys):
    path = tmp_path / "ill.toml"
    path.write_text(ILL.format("diverging"))
    assert main(["fleet", "run", str(path)]) == 0
    told = capsys.readouterr()
    assert told.err.count("`ill`: the loss of mini-batch 3 is nan") == 1
    assert re.search(r" ill .* nan .* loss nan from mini-batch 3 on", told.out)
    assert "`sound`: the loss" not in told.err


def test_a_model_whose_data_fail_is_left_and_the_others_are_trained(tmp_path, capsys):
    path = tmp_path / "ill.toml"
    path.write_text(ILL.format("broken"))
    assert main(["fleet", "run", str(path), "--json"]) == 1
    told = capsys.readouterr()
    losses = json.loads(told.out)["losses"]
    assert (len(losses["ill"]), len(losses["sound"])) == (3, 5)
    assert "The training of model `ill` stopped while reading mini-batch 4 of 5 in `data` (test_cli_fleet.py:" in told.err
    assert "bad record 3" in told.err
    assert "`ill` is done" not in told.err
    assert "1 of 2 models failed: `ill`. The others are trained." in told.err


LONG = """
devices = 2
[[models]]
name = "long"
program = "tests.support.importable:regression"
mini_batches = 60_000
"""


def test_models_join_and_stop_as_the_file_changes(tmp_path, capsys, monkeypatch):
    path, told = tmp_path / "grid.toml", []
    path.write_text(LONG)
    joined = LONG.partition("devices = 2")[2].replace("long", "joined").replace("60_000", "3")
    edits = {
        "training ...": f"{LONG}[[mod",  # cut off in mid-edit
        "is not TOML": LONG + joined,
        "`joined` is done": f"devices = 2{joined}",
    }

    def say(_, text):
        told.append(text)
        for words in [each for each in edits if each in text]:
            path.write_text(edits.pop(words))

    monkeypatch.setattr(fleet_command._ProgressPrinter, "say", say)
    assert main(["fleet", "run", str(path), "--follow", "--json"]) == 0
    assert "`joined` joins" in told
    assert "`long` stops after the current mini-batch" in told
    losses = json.loads(capsys.readouterr().out)["losses"]
    assert len(losses["joined"]) == 3
    assert len(losses["long"]) < 60_000


def test_what_a_checkpoint_has_lost_is_said(file, capsys):
    progress = fleet_command._ProgressPrinter(load_fleet(file))
    progress(CheckpointNotice("a", "The newest checkpoint in kept/a is damaged."))
    assert capsys.readouterr().err == "The newest checkpoint in kept/a is damaged.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--policy", "longest"], "There is no policy `longest`"),
        (["run", "--policy", "all"], "There is no policy `all`"),
        (["run", "--memory", "lots"], '"lots" is not an amount of memory.'),
        (["simulate", "--devices", "9999999"], "9,999,999 devices are 2,441 times the limit of a fleet simulation, 4,096."),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(file, arguments, message, capsys):
    verb, *rest = arguments
    assert main(["fleet", verb, file, *rest]) == 1
    assert message in capsys.readouterr().err
    assert main(["fleet", "run", f"{file}x"]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_serve_opens_the_board_of_a_file(file, monkeypatch):
    served = []
    monkeypatch.setattr("workbench.app.page.fleet_page.serve_fleet", lambda fleet, port, **options: served.append((fleet, port, options)))
    assert main(["serve", "--fleet", file, "--port", "5099", "--no-open"]) == 0
    [(fleet, port, options)] = served
    assert [each.name for each in fleet.models] == ["fit-width=8", "fit-width=16"]
    assert (port, options["open_browser"], options["path"]) == (5099, False, file)


def test_serve_says_what_keeps_it_from_showing_a_fleet(file, capsys):
    assert main(["serve", "--fleet", f"{file}x", "--no-open"]) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert main(["serve", "--fleet", file, "--model", "gpt", "--no-open"]) == 1
    assert "A page shows either a plan or a fleet." in capsys.readouterr().err
