"""A lock on a checkpoint folder: two trainings would overwrite each other's checkpoints."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.documents.durable_files import explain_write_errors, make_folder, try_lock
from workbench.errors import FleetError

LOCK = ".lock"
"""The lock file in a fleet's folder; no model's name begins with a dot."""


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Lock the folder for this training; raises `FleetError` where another one holds it, and where it cannot be written.

    The operating system holds the lock (`flock`) and releases it when the process ends, so that a killed process leaves none behind: the
    file stays but means nothing. Where there is no `flock` (Windows, some network drives) the folder is not locked, and the user must keep
    two trainings apart.
    """
    with explain_write_errors(folder, FleetError):
        make_folder(folder)
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not try_lock(file):
            raise _folder_in_use_error(folder, os.pread(file, 20, 0).decode())
        with explain_write_errors(folder, FleetError):
            os.truncate(file, 0)
            os.write(file, str(os.getpid()).encode())  # for the error message of the next training
        yield
    finally:
        os.close(file)  # which releases the lock


def _folder_in_use_error(folder: Path, process: str) -> FleetError:
    who = f" (process {process})" if process else ""
    return FleetError(
        f"Another training{who} is at work in {folder}: two of them would write each other's checkpoints over.",
        ["wait until it has ended", "stop it: the next one goes on from its checkpoint", "give another folder"],
    )
