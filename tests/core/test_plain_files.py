"""Only regular files are read, wherever a file is named or a folder is listed: what is no file is a message, and nobody waits for it."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.contest_file import read_contest_file
from workbench.app.page.watched_plan_file import PlanFile
from workbench.cli.server_command import read_document as read_sent_document
from workbench.core.parse_untrusted import open_plain
from workbench.documents import load_fleet, load_plan
from workbench.engine.fleet.checkpoint_arrays import ArrayLocation, read_array
from workbench.engine.fleet.model_checkpoint import read_record
from workbench.errors import WorkbenchError
from workbench.exercises.exercise import read_document
from workbench.hardware.catalogue_entry import load_entries
from workbench.session.journal import Journal
from workbench.session.journal_folder import ENDING, find_journal, is_board_id, prune_journals

NO_FILE = "only regular files are read"
BOARD = "a" * 16


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_link_to_pipe(path: Path) -> None:
    os.mkfifo(path.with_suffix(".pipe"))
    path.symlink_to(path.with_suffix(".pipe"))


MAKES = (make_pipe, make_device, make_link_to_pipe)


@pytest.fixture(params=MAKES, ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    found: Callable[[Path], None] = request.param
    return found


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Path]:
    """A socket in a folder."""
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))
        yield path


def test_a_regular_file_is_opened_also_behind_a_link_that_may_be_followed(tmp_path: Path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"text")
    link.symlink_to(file)
    for path in (file, link):
        with open_plain(path) as stream:
            assert stream.read() == b"text"
    with open_plain(file, follow_links=False) as stream:
        assert stream.read() == b"text"
    with pytest.raises(OSError, match="symbolic link"):
        open_plain(link, follow_links=False)


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_what_is_no_file_is_not_opened(tmp_path: Path, make: Callable[[Path], None], listening: Path):
    make(tmp_path / "x")
    descriptors = open_descriptors()
    with pytest.raises(OSError, match=NO_FILE):
        open_plain(tmp_path / "x")
    with pytest.raises(OSError, match="No such device or address"):
        open_plain(listening)
    with pytest.raises(IsADirectoryError):
        open_plain(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path / "none")
    assert open_descriptors() == descriptors


READERS: dict[str, Callable[[Path], object]] = {
    "plan": load_plan,
    "fleet": load_fleet,
    "exercise": read_document,
    "hardware": load_entries,
    "sent": lambda path: read_sent_document(str(path)),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_document_that_is_no_file_is_a_message(tmp_path: Path, make: Callable[[Path], None], reader: str):
    make(path := tmp_path / "x.json")
    with pytest.raises(WorkbenchError, match=NO_FILE):
        READERS[reader](path)


def test_a_contest_that_is_no_file_is_not_read(tmp_path: Path, make: Callable[[Path], None]):
    make(path := tmp_path / "x.json")
    with pytest.raises(OSError, match=NO_FILE):
        read_contest_file(path)


def test_a_checkpoint_with_what_is_no_file_is_damaged(tmp_path: Path, make: Callable[[Path], None]):
    make(path := tmp_path / "x.arrays")
    with pytest.raises(Exception, match=f"cannot be read: .*{NO_FILE}"):
        read_record(path)
    with pytest.raises(Exception, match=f"cannot be read: .*{NO_FILE}"):
        read_array(tmp_path, ArrayLocation(path.name, 0, ""))


def test_a_plan_file_of_a_page_that_is_no_file_is_neither_read_nor_written(tmp_path: Path, make: Callable[[Path], None]):
    from tests.support.room_sessions import first_plan

    make(path := tmp_path / "x.plan.json")
    file = PlanFile(path)
    for work in (file.read, lambda: file.save(first_plan())):
        with pytest.raises(WorkbenchError, match=NO_FILE):
            work()
    assert not file.changed_by_others()


def test_a_journal_that_is_no_file_is_not_found(tmp_path: Path, make: Callable[[Path], None]):
    make(tmp_path / f"{BOARD}{ENDING}")
    assert is_board_id(BOARD)
    assert find_journal(tmp_path, BOARD) is None
    with pytest.raises(WorkbenchError):
        Journal.resume(tmp_path, BOARD)
    assert isinstance(prune_journals(tmp_path), list)
