"""The board in its two hosts, each started for itself: the served page and a JupyterLab with one notebook.

Nothing of this machine's user is read: settings, workspaces and run-time files lie in a folder that is removed at the end.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
IDLE = """() => {
  const shown = window.jupyterapp?.shell.currentWidget, context = shown?.sessionContext;
  return Boolean(context?.isReady && shown.context.isReady && context.session?.kernel?.connectionStatus === 'connected'
    && context.session.kernel.status === 'idle');
}"""
RUN_ALL = "() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); return 1 }"


@contextmanager
def served(plan: str) -> Iterator[str]:
    """The address of a page over `plan`, an expression that makes one."""
    port = free_port()
    code = f"import workbench as wb\nfrom workbench.app.page.serve import serve\nfrom workbench.models import build\nplan = {plan}\n"
    command = [sys.executable, "-c", f"{code}serve(plan, port={port}, open_browser=False)"]
    with _process(command, {}, f"http://127.0.0.1:{port}/liveness"):
        yield f"http://127.0.0.1:{port}/"


@contextmanager
def jupyterlab() -> Iterator[tuple[str, Path]]:
    """The address of a JupyterLab, and the folder of its notebooks."""
    with tempfile.TemporaryDirectory() as folder:
        root, port = Path(folder), free_port()
        (root / "notebooks").mkdir()
        homes = ("JUPYTER_CONFIG_DIR", "JUPYTERLAB_WORKSPACES_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
        options = ["--no-browser", f"--port={port}", "--ip=127.0.0.1", "--allow-root", "--IdentityProvider.token=", "--ServerApp.password="]
        options += ["--LabApp.expose_app_in_browser=True", f"--ServerApp.root_dir={root / 'notebooks'}"]
        options += [f"--LabApp.extra_labextensions_path={REPOSITORY / 'workbench_jupyter' / 'labextension'}"]
        command = [sys.executable, "-m", "jupyterlab", *options]
        with _process(command, {name: str(root / name) for name in homes}, f"http://127.0.0.1:{port}/api/status"):
            yield f"http://127.0.0.1:{port}", root / "notebooks"


def write_notebook(path: Path, source: str) -> None:
    """A notebook of one cell."""
    cell = {"cell_type": "code", "id": "board", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.write_text(json.dumps({"cells": [cell], "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")


def open_notebook(page: Any, lab: tuple[str, Path], plan: str) -> None:
    """Run a notebook with the board over `plan` in a page of the browser."""
    url, folder = lab
    code = f"import workbench as wb\nfrom workbench.models import build\nwb.Workbench({plan})"
    write_notebook(folder / "board.ipynb", code)
    page.goto(f"{url}/lab/tree/board.ipynb?reset")
    page.wait_for_function(IDLE, timeout=60_000)
    page.evaluate(RUN_ALL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _process(command: list[str], environment: dict[str, str], url: str) -> Iterator[None]:
    """A server that runs while the block does, from when it answers at `url`."""
    paths = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH", ""))))
    with tempfile.TemporaryFile() as log:
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", **environment, "PYTHONPATH": paths}
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            if not _came_up(process, url):
                log.seek(0)
                raise SystemExit(f"{' '.join(command)[:200]} did not come up:\n{log.read().decode(errors='replace')[-2000:]}")
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _came_up(process: subprocess.Popen[bytes], url: str, seconds: float = 60.0) -> bool:
    """Whether the server answers before it ends or the time is over."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - of this machine
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
        else:
            return True
    return False
