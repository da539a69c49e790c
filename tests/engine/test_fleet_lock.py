"""A folder has one training at a time, and is free as soon as that has ended, however it did."""

import gc
import subprocess
import sys

import pytest

from tests.engine.test_fleet import fleet
from workbench.engine.fleet.model_checkpoint import LOCK, hold_folder
from workbench.engine.fleet.train_fleet import FleetRun
from workbench.errors import FleetError

pytestmark = pytest.mark.compile

HOLDING = """
import sys, time
from pathlib import Path
from workbench.engine.fleet.model_checkpoint import hold_folder
with hold_folder(Path(sys.argv[1])):
    print("there", flush=True)
    time.sleep(600)
"""


def test_a_folder_in_which_another_process_trains_is_refused_until_that_is_gone(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "there\n"
        with pytest.raises(FleetError) as caught, hold_folder(tmp_path):
            pass
        assert str(caught.value) == (
            f"Another training run (process {other.pid}) uses {tmp_path}: the two would overwrite each other's checkpoints.\n"
            "  Try: wait until it has ended · stop it: the next run continues from its checkpoint · give another folder."
        )
        other.kill()
    with hold_folder(tmp_path):
        assert (tmp_path / LOCK).exists()
    with hold_folder(tmp_path):
        pass


def test_where_the_system_has_no_locks_the_folder_is_not_locked(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with hold_folder(tmp_path), hold_folder(tmp_path):
        pass


def test_a_second_training_in_a_folder_touches_nothing_and_comes_in_once_the_first_has_ended(tmp_path):
    first = FleetRun(fleet("momentum", devices=1, folder=tmp_path))
    (tmp_path / "momentum" / "99.arrays").write_bytes(b"half of what is being written")
    before = sorted(each.name for each in (tmp_path / "momentum").iterdir())
    with pytest.raises(FleetError, match=r"uses .*overwrite"):
        FleetRun(fleet("momentum", devices=1, folder=tmp_path))
    assert sorted(each.name for each in (tmp_path / "momentum").iterdir()) == before
    first.run()
    with pytest.raises(FleetError, match="9 devices"):
        FleetRun(fleet("momentum", devices=9, folder=tmp_path))
    second = FleetRun(fleet("momentum", devices=1, folder=tmp_path))  # the one that was refused has let it go
    assert second.model_runs[0].done == first.model_runs[0].last


def test_a_training_that_is_thrown_away_lets_its_folder_go(tmp_path):
    run = FleetRun(fleet("momentum", devices=1, folder=tmp_path))
    with pytest.raises(FleetError), hold_folder(tmp_path):
        pass
    del run
    gc.collect()
    with hold_folder(tmp_path):
        pass


def test_an_interrupted_training_has_ended_when_its_folder_is_free(tmp_path, monkeypatch):
    run = FleetRun(fleet("sgd", "momentum", devices=2, mini_batches=15, folder=tmp_path))
    secured = []

    def interrupted():
        if not secured:
            secured.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr("workbench.engine.fleet.fleet_executor._SECURED", 0.0)
    monkeypatch.setattr(run.executor, "_secure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert not any(each.is_alive() for each in run.executor._threads.values())
    assert any(each.done < each.last for each in run.model_runs)
    with hold_folder(tmp_path):
        pass
