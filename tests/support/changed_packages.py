"""`--changed`: the tests of the packages that were changed, for the minute before a commit."""

import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
ALWAYS = ("test_house.py", "test_messages.py")
"""Files of tests that any change may break, and that are cheap."""


def list_changed(since: str = "HEAD") -> list[str]:
    """The files that differ from a revision of Git, those that Git does not know yet among them, relative to the root."""
    differing = _git("diff", "--name-only", since)
    return [*differing, *_git("ls-files", "--others", "--exclude-standard")]


def packages_of(files: Iterable[str]) -> set[str]:
    """The entries of `tests/` that hold the tests of these files: folders are named like the packages."""
    known = {entry.name for entry in (ROOT / "tests").iterdir()}
    found = set(ALWAYS)
    for file in files:
        top, *rest = PurePosixPath(file).parts
        if top in ("workbench", "tests") and rest:
            beside = top == "workbench" and len(rest) == 1  # the errors, the units
            found.add("core" if beside else rest[0])
    return found & known


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
