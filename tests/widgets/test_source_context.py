"""The user's lines around what is selected: of the traced program's own files, and of no other."""

import inspect
from pathlib import Path

import pytest

from workbench.models import build
from workbench.propagation.prepared_program import source_files
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.board import Board
from workbench.widgets.tabs.source_context import AROUND, source_state


@pytest.fixture(scope="module")
def report():
    return Plan(build("gpt", layers=2), "data:4 model:2", "batch:data; d_ff:model", hardware="TPU v5e 2x4").report()


def test_a_kernel_shows_ten_lines_around_its_own_as_the_file_has_them(report):
    kernel = next(each for each in report.kernel_costs if each.source.startswith("gpt.py"))
    found = source_state(report, kernel.path)
    number = int(kernel.source.partition(":")[2])
    [file] = [path for name, path in source_files(report.plan.program).items() if name == "gpt.py"]
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    assert found["line"] == kernel.source
    assert [each["number"] for each in found["lines"]] == list(range(number - AROUND, number + AROUND + 1))
    assert [each["text"] for each in found["lines"]] == lines[number - AROUND - 1 : number + AROUND]
    assert found["linked"] == []


def test_a_line_links_all_that_comes_from_it(report):
    kernel = next(each for each in report.kernel_costs if each.source.startswith("gpt.py"))
    found = source_state(report, kernel.source)
    made = {each.path for each in (*report.kernel_costs, *report.collectives) if each.source == kernel.source}
    assert made <= set(found["linked"])
    assert next(each for each in found["lines"] if each["number"] == found["number"])["subject"] == kernel.source


def test_a_scope_shows_the_first_line_in_it(report):
    kernel = next(each for each in report.kernel_costs if each.path.startswith("layers/"))
    assert source_state(report, "layers")["line"].startswith("gpt.py:")
    assert source_state(report, kernel.path.rpartition("/")[0]) is not None


@pytest.mark.parametrize(
    "asked", ["", "/etc/passwd", "/etc/passwd:1", "passwd:1", "../gpt.py:10", "gpt.py", "gpt.py:999999", "gpt.py:-1", "conftest.py:1"]
)
def test_no_text_of_a_gesture_becomes_a_file(report, asked, monkeypatch):
    monkeypatch.setattr("linecache.getlines", lambda file: pytest.fail(f"{file} was read"))
    assert source_state(report, asked) is None


def test_the_files_are_those_of_the_function_alone(report):
    from workbench.models import gpt

    found = set(source_files(report.plan.program).values()) - {"-"}
    assert inspect.getsourcefile(gpt) in found
    models = Path(inspect.getsourcefile(gpt)).parents[1]  # JAX keeps what it traced of a shared function with the line that called it first
    assert all(Path(each).is_relative_to(models) for each in found)


def test_the_board_publishes_the_lines_of_what_is_selected(report):
    published = {}
    board = Board(Session(report.plan), published.__setitem__)
    path = next(each.path for each in report.kernel_costs if each.source)
    board.answer({"verb": "select", "path": path, "view": "v", "seq": 1})
    assert published["table"]["source"]["lines"]
    board.answer({"verb": "select", "path": path, "view": "v", "seq": 2})
    assert published["table"]["source"] is None
    board.close()
