"""The secret key in the data folder."""

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from workbench.errors import WorkbenchError
from workbench.team.accounts.sign_in_flow import derive_key, load_secret_key


def test_it_is_made_once_for_the_owners_eyes_alone(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(load_secret_key, [tmp_path / "data"] * 16))
    assert len(keys) == 1
    assert len(keys.pop()) == 32
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["secret_key"]
    assert stat.S_IMODE((tmp_path / "data" / "secret_key").stat().st_mode) == 0o600


def test_one_that_others_can_read_or_that_is_none_is_refused(tmp_path):
    load_secret_key(tmp_path)
    (tmp_path / "secret_key").chmod(0o644)
    with pytest.raises(WorkbenchError, match="Other users of this machine can read"):
        load_secret_key(tmp_path)
    (tmp_path / "secret_key").chmod(0o600)
    for text in ("", "abc", "zz" * 32, "ab" * 31):
        (tmp_path / "secret_key").write_text(text)
        with pytest.raises(WorkbenchError, match="does not contain a secret key of 32 bytes"):
            load_secret_key(tmp_path)


def test_a_folder_that_cannot_be_written_is_said_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkbenchError, match="cannot be written"):
        load_secret_key(tmp_path / "file" / "data")


def test_keys_of_different_purposes_differ():
    assert derive_key(b"k", "a") != derive_key(b"k", "b") != derive_key(b"l", "b")
