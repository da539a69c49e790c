"""What outlives a process and what outlives the machine: the files of a model's checkpoint."""

import errno
import json
import os
import random
import shutil
import stat
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from tests.engine.test_unit_scheduler import model_run as trainee_of
from tests.engine.test_unit_scheduler import unit
from workbench.documents import durable_files
from workbench.engine.fleet import model_checkpoint as fleet_checkpoint
from workbench.engine.fleet.device_and_host_arrays import HostStore
from workbench.engine.fleet.model_checkpoint import Checkpoint
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
    monkeypatch.setattr(fleet_checkpoint, "this_boot", lambda: "another")
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
    monkeypatch.setattr(fleet_checkpoint, "this_boot", lambda: "another")
    assert stored(tmp_path).resume() == {"done": 1, "losses": [3.0]}


def test_the_folder_is_on_the_disk_before_a_position_counts_on_its_files_and_before_others_go(tmp_path, monkeypatch):
    store, told = stored(tmp_path), []
    synced, replaced, removed = os.fsync, Path.replace, Path.unlink
    is_folder = {True: "folder", False: "file"}
    monkeypatch.setattr(os, "fsync", lambda file: told.append(is_folder[stat.S_ISDIR(os.fstat(file).st_mode)]) or synced(file))
    monkeypatch.setattr(Path, "replace", lambda path, to: told.append(f"{to.name} is put") or replaced(path, to))
    monkeypatch.setattr(Path, "unlink", lambda path, **given: told.append(f"{path.name} goes") or removed(path, **given))
    for done in (1, 2, 3):
        store.put({("piece", 0): numbers(done)})
        store.commit({"done": done})
        told.clear()
        store.secure()
    assert told == ["file", "folder", "file", "previous.json is put", "position.json is put", "folder", "1.arrays goes"]


def test_a_folder_that_cannot_be_brought_to_the_disk_is_none_the_worse(tmp_path, monkeypatch):
    opened = os.open

    def fails(path, *given):
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "no folder is opened here")
        return opened(path, *given)

    monkeypatch.setattr(durable_files.os, "open", fails)
    store = stored(tmp_path / "a" / "b")
    store.commit({"done": 1})
    store.secure()
    monkeypatch.undo()
    assert stored(tmp_path / "a" / "b").resume() == {"done": 1}


def test_nothing_was_safe_yet(tmp_path, monkeypatch):
    store = stored(tmp_path)
    store.put({("piece", 0): numbers(1)})
    store.commit({"done": 1})
    monkeypatch.setattr(fleet_checkpoint, "this_boot", lambda: "another")
    assert stored(tmp_path).resume() is None


def test_where_starts_of_the_machine_cannot_be_told_apart_every_commit_is_made_safe(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_checkpoint, "this_boot", lambda: None)
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
    kept = {f"{number}.arrays" for number in (3, 4, 5, 6)}  # of the last that was safe, and of the one before
    again = Checkpoint(tmp_path)
    assert again.peek_position() == {"done": 5}
    again.resume()
    assert {each.name for each in tmp_path.glob("*.arrays")} == kept | {"99.arrays"}  # another may be writing it
    stored(tmp_path).resume()
    assert {each.name for each in tmp_path.glob("*.arrays")} == kept


def three_commits(folder: Path) -> None:
    """The newest one with `done` 3, the safe one with 2, the one before with 1: as their parameters; the data of all in one file."""
    store = stored(folder)
    store.put({("batch", 0): numbers(7)})
    for done in (1, 2, 3):
        store.put({("piece", 0): numbers(done)})
        store.commit({"done": done, "losses": [0.5] * done})
        if done < 3:
            store.secure()


DAMAGES = {
    "empty": lambda _: b"",
    "of zeros": lambda content: bytes(len(content)),
    "half": lambda content: content[: len(content) // 2],
    "a bit of the first byte": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "a bit of the last byte": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "a bit in between": lambda content: content[: (at := len(content) * 2 // 3)] + bytes([content[at] ^ 4]) + content[at + 1 :],
}
DONE = {"latest.json": 2, "position.json": 3, "previous.json": 3, "3.arrays": 2, "2.arrays": 3}


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_whichever_file_is_damaged_the_newest_checkpoint_that_is_whole_is_gone_on_from(tmp_path, damage, on_disk):
    three_commits(tmp_path / "whole")
    assert {each.name for each in (tmp_path / "whole").iterdir()} == {*DONE, "1.arrays"}
    for name, done in DONE.items():
        folder = shutil.copytree(tmp_path / "whole", tmp_path / name)
        (folder / name).write_bytes(DAMAGES[damage]((folder / name).read_bytes()))
        again = stored(folder, on_disk=on_disk)
        assert again.resume() == {"done": done, "losses": [0.5] * done}
        np.testing.assert_array_equal(again.get(("piece", 0)), numbers(done))
        np.testing.assert_array_equal(again.get(("batch", 0)), numbers(7))
        assert bool(again.notice) == (done < 3)
        again.put({("piece", 0): numbers(9)})
        again.commit({"done": 9})
        again.secure()
        other = stored(folder, on_disk=on_disk)
        assert (other.resume(), other.notice) == ({"done": 9}, "")


def test_after_a_loss_of_power_an_empty_newest_file_is_passed_over_in_words(tmp_path, monkeypatch):
    three_commits(tmp_path)
    (tmp_path / "latest.json").write_bytes(b"")
    monkeypatch.setattr(fleet_checkpoint, "this_boot", lambda: "another")
    again = stored(tmp_path)
    assert again.resume()["done"] == 2
    assert again.notice == (
        f"The newest checkpoint in {tmp_path} is damaged: `latest.json` is empty. It continues from the previous "
        "checkpoint, which is undamaged."
    )


def test_where_the_safe_one_is_damaged_too_the_one_before_it_is_gone_on_from_and_is_not_lost(tmp_path, monkeypatch):
    three_commits(tmp_path)
    for name in ("latest.json", "position.json"):
        (tmp_path / name).write_bytes(b"")
    for done in (4, 5):
        again = stored(tmp_path)
        assert again.resume()["done"] == 1
        again.put({("piece", 0): numbers(done)})
        again.commit({"done": done})
        (tmp_path / "latest.json").write_bytes(b"")
    again.secure()
    monkeypatch.setattr(fleet_checkpoint, "this_boot", lambda: "another")
    assert stored(tmp_path).resume()["done"] == 5
    (tmp_path / "position.json").write_bytes(b"")
    assert stored(tmp_path).resume()["done"] == 1


def test_where_nothing_is_whole_that_is_said_and_nothing_is_removed(tmp_path):
    three_commits(tmp_path)
    (tmp_path / "1.arrays").write_bytes(b"float32\n")  # which all of them name
    (tmp_path / "position.json").write_text("{")
    there = {each.name for each in tmp_path.iterdir()}
    for look in (stored(tmp_path).resume, Checkpoint(tmp_path).peek_position):
        with pytest.raises(FleetError) as caught:
            look()
        assert str(caught.value) == (
            f"The checkpoint in {tmp_path} is damaged, and every earlier checkpoint is damaged: `position.json` is corrupt; `1.arrays` "
            "has no array at the expected position.\n"
            "  Try: start from the beginning in another folder · restore a copy of that folder, if you have one."
        )
    assert {each.name for each in tmp_path.iterdir()} == there


def test_what_was_damaged_before_anything_was_safe_starts_anew_in_words(tmp_path):
    store = stored(tmp_path)
    store.put({("piece", 0): numbers(1)})
    store.commit({"done": 1})
    (tmp_path / "1.arrays").write_bytes(b"")
    again = stored(tmp_path)
    assert again.resume() is None
    assert again.notice == (
        f"The newest checkpoint in {tmp_path} is damaged: `1.arrays` has no array at the expected position. "
        "It had no earlier checkpoint and starts from the beginning."
    )


def test_no_flipped_bit_is_resumed_as_if_it_were_right(tmp_path):
    three_commits(tmp_path)
    draw, names = random.Random(0), sorted({*DONE, "1.arrays"})
    for _ in range(300):
        path = tmp_path / draw.choice(names)
        whole = path.read_bytes()
        at = draw.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :])
        again = Checkpoint(tmp_path)
        try:
            position, arrays = again.resume()
        except FleetError:
            assert path.name == "1.arrays"
        else:
            assert position == {"done": position["done"], "losses": [0.5] * position["done"]}
            np.testing.assert_array_equal(arrays["piece", 0], numbers(position["done"]))
            np.testing.assert_array_equal(arrays["batch", 0], numbers(7))
        path.write_bytes(whole)


def test_damage_that_comes_while_a_training_reads_from_the_disk_is_said(tmp_path):
    store = stored(tmp_path, on_disk=True)
    store.put({("piece", 0): numbers(1)})
    store.commit({"done": 1})
    whole = (tmp_path / "1.arrays").read_bytes()
    (tmp_path / "1.arrays").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(FleetError) as caught:
        store.get(("piece", 0))
    assert str(caught.value) == (
        f"The checkpoint in {tmp_path} was damaged while it was used: an array in `1.arrays` is corrupt: its checksum "
        "differs.\n  Try: run it again: it continues from the newest undamaged checkpoint · check that disk."
    )


def test_a_checkpoint_of_before_there_were_checksums_is_gone_on_from(tmp_path):
    three_commits(tmp_path)
    for name in ("latest.json", "position.json"):
        record = json.loads((tmp_path / name).read_text())
        del record["checksum"]
        record["files"] = {key: place[:2] for key, place in record["files"].items()}
        (tmp_path / name).write_text(json.dumps(record))
    (tmp_path / "previous.json").unlink()
    again = stored(tmp_path)
    assert (again.resume(), again.notice) == ({"done": 3, "losses": [0.5] * 3}, "")
    np.testing.assert_array_equal(again.get(("piece", 0)), numbers(3))


def test_no_record_leads_to_a_file_outside_of_its_folder(tmp_path):
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    three_commits(tmp_path / "kept")
    for name in ("latest.json", "position.json", "previous.json"):
        record = json.loads((tmp_path / "kept" / name).read_text())
        del record["checksum"]
        record["files"] = {key: ["../precious", 0] for key in record["files"]}
        (tmp_path / "kept" / name).write_text(json.dumps(record))
    with pytest.raises(FleetError, match="every earlier checkpoint is damaged"):
        stored(tmp_path / "kept").resume()
    assert precious.read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("code", "way_out"),
    [(errno.EROFS, "choose a folder on a writable disk"), (errno.ENOSPC, "free space on that disk · choose another folder")],
)
def test_a_folder_that_cannot_be_written_is_said(tmp_path, monkeypatch, code, way_out):
    store = stored(tmp_path)
    store.put({("piece", 0): numbers(1)})
    store.commit({"done": 1})

    def fails(*_, **__):
        raise OSError(code, os.strerror(code))

    message = f"`{tmp_path}` cannot be written: {os.strerror(code)}.\n  Try: {way_out}."
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(FleetError) as caught:
        store.secure()
    assert str(caught.value) == message
    monkeypatch.setattr(Path, "open", fails)
    store.put({("piece", 0): numbers(2)})
    with pytest.raises(FleetError) as caught:
        store.commit({"done": 2})
    assert str(caught.value) == message
    monkeypatch.setattr(Path, "mkdir", fails)
    with pytest.raises(FleetError, match="cannot be written"):
        stored(tmp_path / "new")
