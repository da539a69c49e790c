"""The board in a JupyterLab cell: the same module in its other host."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from tests.ui.servers import free_port, wait_for
from tests.ui.test_page import drag, grip

pytestmark = pytest.mark.ui

REPOSITORY = Path(__file__).parents[2]
SETUP = """
import sys; sys.path.insert(0, {repository!r})
import workbench as wb
from workbench.models import build
bench = wb.Workbench(wb.Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data"))
bench
"""
READY = """() => {
  const shown = window.jupyterapp?.shell.currentWidget, context = shown?.sessionContext;
  return Boolean(context?.isReady && shown.context.isReady && context.session?.kernel?.connectionStatus === 'connected'
    && context.session.kernel.status === 'idle');
}"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """A JupyterLab of its own, which knows no settings of this machine's user."""
    root = tmp_path_factory.mktemp("lab")
    (root / "notebooks").mkdir()
    port = free_port()
    homes = {"JUPYTER_CONFIG_DIR": "config", "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "JUPYTERLAB_SETTINGS_DIR": "settings"}
    homes |= {"JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}
    options = ["--no-browser", f"--port={port}", "--ip=127.0.0.1", "--allow-root", "--IdentityProvider.token=", "--ServerApp.password="]
    options += ["--LabApp.expose_app_in_browser=True", f"--ServerApp.root_dir={root / 'notebooks'}"]
    with (root / "log").open("w") as log:
        environment = {**os.environ, **{name: str(root / folder) for name, folder in homes.items()}}
        server = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], env=environment, stdout=log, stderr=log)
        wait_for(f"http://127.0.0.1:{port}/api/status")
        yield f"http://127.0.0.1:{port}", root / "notebooks"
        server.terminate()
        server.wait(20)


def run_cell(page, number: int) -> None:
    page.evaluate(
        "n => { jupyterapp.shell.currentWidget.content.activeCellIndex = n; jupyterapp.commands.execute('notebook:run-cell'); return 1 }",
        number,
    )


def test_a_drop_in_the_cell_moves_the_plan_in_the_kernel(lab, guarded):
    url, folder = lab
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.cells = [
        nbformat.v4.new_code_cell(SETUP.format(repository=str(REPOSITORY))),
        nbformat.v4.new_code_cell("print('PLAN', bench.plan.layout)"),
    ]
    nbformat.write(notebook, folder / "board.ipynb")
    guarded.goto(f"{url}/lab/tree/board.ipynb?reset")
    guarded.wait_for_function(READY, timeout=60_000)
    run_cell(guarded, 0)
    guarded.locator(".wb .chip").first.wait_for(timeout=60_000)
    drag(guarded, "hidden", "model")
    expect(grip(guarded, "hidden", "model")).to_contain_text("30 → 15")
    grip(guarded, "hidden", "model").focus()
    guarded.keyboard.press("b")  # JupyterLab would insert a cell
    run_cell(guarded, 1)
    expect(guarded.locator(".jp-OutputArea-output", has_text="PLAN")).to_contain_text("batch:data; hidden:model")
    expect(guarded.locator(".jp-Cell")).to_have_count(2)
