"""The notebooks: each runs from top to bottom under nbval and gives the outputs it stores, and each is fit to be read."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.without_grammars import without_grammars

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BYTES = 200_000


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.name)
def path(request) -> Path:
    return request.param


@pytest.fixture
def cells(path) -> list[dict]:
    return [{**cell, "source": "".join(cell["source"])} for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


def code(cells: list[dict]) -> list[str]:
    return [cell["source"] for cell in cells if cell["cell_type"] == "code"]


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.compile
@pytest.mark.notebook
@pytest.mark.share(5)
def test_it_runs_and_gives_the_outputs_it_stores(path, request, tmp_path):
    """In a process of its own: a kernel's event loop and Playwright's do not share one, and Jupyter's own warnings are not ours."""
    environment = {**os.environ, "PYTHONPATH": without_grammars(tmp_path, ROOT), "JAX_PLATFORMS": "cpu"}
    if request.config.getoption("--update-golden"):
        subprocess.run([sys.executable, ROOT / "tests" / "refresh_notebooks.py", path], cwd=ROOT, env=environment, timeout=900, check=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "nbval", "--nbval", "--nbval-current-env", "-W", "default", str(path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_its_cells_are_short_and_each_has_its_question_before_it(cells):
    lines = [[line for line in source.splitlines() if not line.startswith("# NBVAL")] for source in code(cells)]
    assert all(1 <= len(each) <= 4 for each in lines)
    assert 30 <= len(code(cells)) <= 50
    assert cells[0]["source"].startswith("# ")


def test_it_imports_at_the_top_only(cells):
    importing = [bool(re.search(r"^(import|from) ", source, re.MULTILINE)) for source in code(cells)]
    assert importing == sorted(importing, reverse=True)


def test_every_cell_has_run_in_order_and_none_failed(cells):
    ran = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in ran] == list(range(1, len(ran) + 1))
    assert not [out for cell in ran for out in cell["outputs"] if out["output_type"] == "error"]


def test_it_is_small_and_tells_nothing_of_the_machine(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < BYTES
    assert not re.search(r"/home/|/Users/|/tmp/|/mnt/|[A-Z]:\\\\|ipykernel_\d", text)
    notebook = json.loads(text)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert not any(cell["metadata"] for cell in notebook["cells"])


def test_a_reader_without_a_kernel_sees_every_picture(cells):
    shown = [out["data"] for cell in cells for out in cell.get("outputs", ()) if "data" in out]
    assert any("image/svg+xml" in data for data in shown)
    assert not any("application/vnd.jupyter.widget-view+json" in data for data in shown)
    assert not any("<script" in str(data) for data in shown)
