"""What outlives a process and what outlives the machine: the files of a model's checkpoint."""

import errno
import os
import stat
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from tests.engine.test_fleet_desk import trainee as trainee_of
from tests.engine.test_fleet_desk import unit
from workbench.engine import fleet_checkpoint
from workbench.engine.fleet_checkpoint import Checkpoint
from workbench.engine.fleet_store import HostStore
from workbench.errors import FleetError


def stored(folder, **options) -> HostStore:
    return HostStore(folder, **options)


def numbers(value: float) -> np.ndarray:
    return np.full((3, 2), value, np.float32)


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_was_committed_is_there_for_another_process_in_every_type(tmp_path, on_disk):
    store = stored(tmp_path, on_disk=on_disk)
    arrays = {
        ("piece", 0): numbers(1.5),
        ("state", 0, 1, None): np.int32(7),
        ("value", 3): jnp.ones((2, 2), jnp.bfloat16) * 3,
        ("batch", 1): np.zeros((0, 4), np.uint8),
    }
    store.put(arrays)
    store.commit({"done": 1})
    store.put({("piece", 0): numbers(2.5)})
    store.drop([("value", 3)])
    store.commit({"done": 2})
    assert (not store._arrays) == on_disk
    again = stored(tmp_path, on_disk=on_disk)
    assert again.resume() == {"done": 2}
    np.testing.assert_array_equal(again.get(("piece", 0)), numbers(2.5))
    assert again.get(("state", 0, 1, None)) == 7
    assert again.get(("batch", 1)).shape == (0, 4)
    with pytest.raises((KeyError, AssertionError)):
        again.get(("value", 3))


def test_bfloat16_comes_back_as_it_was(tmp_path):
    store = stored(tmp_path)
    store.put({("piece", 0): jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3)})
    store.commit({})
    again = stored(tmp_path)
    again.resume()
    found = again.get(("piece", 0))
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.arange(6).reshape(2, 3))


def test_after_a_loss_of_power_it_goes_on_from_what_was_safe(tmp_path, monkeypatch):
    store = stored(tmp_path)
    for done in (1, 2, 3):
        store.put({("piece", 0): numbers(done)})
        store.commit({"done": done})
        if done == 2:
            store.secure()
    assert stored(tmp_path).resume() == {"done": 3}  # another process of the same start of the machine
    monkeypatch.setattr(fleet_checkpoint, "_boot", lambda: "another")
    again = stored(tmp_path)
    assert again.resume() == {"done": 2}
    np.testing.assert_array_equal(again.get(("piece", 0)), numbers(2))
    again.put({("piece", 0): numbers(9)})
    again.commit({"done": 9})
    assert stored(tmp_path).resume() == {"done": 9}


def test_what_is_safe_has_the_losses_of_its_units_though_the_model_has_gone_on(tmp_path, monkeypatch):
    model = trainee_of(unit(1, 1))
    model.store = stored(tmp_path)
    model.losses.append(3.0)
    model.store.put({("piece", 0): numbers(1)})
    model.store.commit(model.position(1))
    model.losses.append(2.0)  # of the next unit, which is not committed yet
    model.store.secure()
    monkeypatch.setattr(fleet_checkpoint, "_boot", lambda: "another")
    assert stored(tmp_path).resume() == {"done": 1, "losses": [3.0]}


def test_the_folder_is_on_the_disk_before_a_position_counts_on_its_files_and_before_others_go(tmp_path, monkeypatch):
    store, told = stored(tmp_path), []
    synced, replaced, removed = os.fsync, Path.replace, Path.unlink
    is_folder = {True: "folder", False: "file"}
    monkeypatch.setattr(os, "fsync", lambda file: told.append(is_folder[stat.S_ISDIR(os.fstat(file).st_mode)]) or synced(file))
    monkeypatch.setattr(Path, "replace", lambda path, to: told.append(f"{to.name} is put") or replaced(path, to))
    monkeypatch.setattr(Path, "unlink", lambda path, **given: told.append(f"{path.name} goes") or removed(path, **given))
    for done in (1, 2):
        store.put({("piece", 0): numbers(done)})
        store.commit({"done": done})
        told.clear()
        store.secure()
    assert told == ["file", "folder", "file", "position.json is put", "folder", "1.arrays goes"]


def test_a_folder_that_cannot_be_brought_to_the_disk_is_none_the_worse(tmp_path, monkeypatch):
    def fails(path, flags):
        raise PermissionError(errno.EACCES, "no folder is opened here")

    monkeypatch.setattr(fleet_checkpoint.os, "open", fails)
    store = stored(tmp_path / "a" / "b")
    store.commit({"done": 1})
    store.secure()
    monkeypatch.undo()
    assert stored(tmp_path / "a" / "b").resume() == {"done": 1}


def test_nothing_was_safe_yet(tmp_path, monkeypatch):
    store = stored(tmp_path)
    store.put({("piece", 0): numbers(1)})
    store.commit({"done": 1})
    monkeypatch.setattr(fleet_checkpoint, "_boot", lambda: "another")
    assert stored(tmp_path).resume() is None


def test_where_starts_of_the_machine_cannot_be_told_apart_every_commit_is_made_safe(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_checkpoint, "_boot", lambda: None)
    store = stored(tmp_path)
    store.put({("piece", 0): numbers(1)})
    store.commit({"done": 1})
    (tmp_path / fleet_checkpoint.LATEST).unlink()
    assert stored(tmp_path).resume() == {"done": 1}


def test_files_that_no_position_names_are_removed_when_a_training_begins_and_not_by_looking(tmp_path):
    store = stored(tmp_path)
    for done in range(6):
        store.put({("piece", 0): numbers(done), ("piece", 1 + done % 2): numbers(-done)})
        store.commit({"done": done})
        if done % 2:
            store.secure()
    (tmp_path / "99.arrays").write_bytes(b"stray")
    kept = {"5.arrays", "6.arrays"}
    again = Checkpoint(tmp_path)
    assert again.look_over() == {"done": 5}
    again.resume()
    assert {each.name for each in tmp_path.glob("*.arrays")} == kept | {"99.arrays"}  # another may be writing it
    stored(tmp_path).resume()
    assert {each.name for each in tmp_path.glob("*.arrays")} == kept


def test_a_damaged_checkpoint_is_said(tmp_path):
    store = stored(tmp_path)
    store.put({("piece", 0): numbers(1)})
    store.commit({"done": 1})
    (tmp_path / "1.arrays").write_bytes(b"float32\n")
    with pytest.raises(FleetError, match="cannot be read"):
        stored(tmp_path).resume()
