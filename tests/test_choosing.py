"""Which cases a run has is drawn by its seed; over the nights each has its turn."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.choosing import drawn, share_of

CASES = [(model, recipe) for model in "abcde" for recipe in range(6)]

FILE = """
import pytest

@pytest.mark.share(3)
@pytest.mark.parametrize("case", range(9))
def test_many(case):
    pass

@pytest.mark.share(4)
@pytest.mark.parametrize("case", range(9))
def test_more(case):
    pass

@pytest.mark.nightly
def test_long():
    pass

def test_short():
    pass

@pytest.mark.share(2, of="kind")
@pytest.mark.parametrize("case", range(3))
def test_kind(case):
    pass

@pytest.mark.share(2, of="kind")
def test_other_of_the_kind():
    pass
"""
FILE_OF_SHARES = """
import pytest

pytestmark = pytest.mark.share(3, of="file")

def test_a(): pass
def test_b(): pass
def test_c(): pass
def test_d(): pass
"""


def test_a_third_is_drawn_with_every_label_in_it_the_same_by_the_same_seed():
    for seed in range(20):
        found = drawn(CASES, seed, lambda case: case)
        assert len(found) == 10
        assert {label for number in found for label in CASES[number]} == {label for case in CASES for label in case}
        assert found == drawn(CASES, seed, lambda case: case)


def test_every_case_has_its_turn():
    assert set().union(*(drawn(CASES, seed, lambda case: case) for seed in range(40))) == set(range(len(CASES)))


def test_labels_come_before_the_share():
    assert len(drawn(CASES, 0, lambda case: case, share=30)) >= 5


@pytest.mark.parametrize(("asked", "most"), [("", 4), ("nightly", 10), ("nightly or not nightly", 10)])
def test_what_one_test_tries_is_a_share_in_a_run_and_everything_at_night(asked, most):
    options = {"markexpr": asked, "--hypothesis-seed": 7}
    found = share_of(SimpleNamespace(getoption=options.get), range(10), 3)
    assert len(found) == most
    assert found == sorted(set(found))


def collected(folder: Path, *runs: list[str]) -> list[list[str]]:
    """Names of the tests that a run with each of these options has, of the files in the folder; one process, which imports JAX once."""
    options = ["--collect-only", "-q", "-p", "tests.conftest", "--rootdir", str(folder)]
    options += ["-c", str(Path(__file__).parents[1] / "pyproject.toml"), str(folder)]
    code = "".join(f"print(); pytest.main({[*options, *more]}); print('====')\n" for more in runs)
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # a `-v` would list a tree
    command = [sys.executable, "-c", f"import pytest\n{code}"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], env=own, capture_output=True, text=True, timeout=120, check=False)
    parts = done.stdout.split("====")[: len(runs)]
    return [[line.rpartition("::")[2] for line in part.splitlines() if "::" in line] for part in parts]


@pytest.mark.compile
def test_a_run_and_the_night_behind_it_have_every_test_once(tmp_path):
    (tmp_path / "test_these.py").write_text(FILE)
    (tmp_path / "test_a_file.py").write_text(FILE_OF_SHARES)
    run, night = collected(tmp_path, ["--hypothesis-seed=7"], ["--hypothesis-seed=7", "-m", "nightly"])
    assert len(run) == 3 + 3 + 1 + 2 + 2
    assert "test_short" in run
    assert "test_long" in night
    assert sorted(run + night) == sorted(
        [
            "test_short",
            "test_long",
            "test_other_of_the_kind",
            *(f"test_kind[{case}]" for case in range(3)),
            *(f"test_{name}" for name in "abcd"),
            *(f"test_{name}[{case}]" for name in ("many", "more") for case in range(9)),
        ]
    )
