"""`--changed` runs the tests of what was changed, and those that any change may break."""

import subprocess
from pathlib import Path

import pytest

from tests.support import changed_packages
from tests.support.changed_packages import ALWAYS, list_changed, packages_of

TESTS = Path(__file__).parent
PACKAGES = {entry.name for entry in (TESTS.parent / "workbench").iterdir() if (entry / "__init__.py").exists()}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("workbench/plan/edits.py", {"plan"}),
        ("workbench/engine/spmd/against_unsharded.py", {"engine"}),
        ("workbench/errors.py", {"core"}),
        ("tests/search/test_front.py", {"search"}),
        ("tests/test_docs.py", {"test_docs.py"}),
        ("docs/index.md", set()),
        ("workbench/gone/module.py", set()),
    ],
)
def test_a_file_is_packages_of_the_folder_of_its_package(file, expected):
    assert packages_of([file]) == expected | set(ALWAYS)


def test_every_package_has_a_folder_of_tests():
    assert {package for package in PACKAGES if package not in packages_of([f"workbench/{package}/module.py"])} == set()


def test_what_git_does_not_know_yet_is_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(changed_packages, "ROOT", tmp_path)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")
    (tmp_path / "known.py").write_text("")
    for command in (("init", "-q"), ("add", "known.py"), ("commit", "-qm", "first")):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    assert list_changed() == []
    (tmp_path / "known.py").write_text("changed")
    (tmp_path / "new.py").touch()
    assert list_changed() == ["known.py", "new.py"]
