"""A real JupyterLab with the extension of this checkout, and hands to drive it."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from playwright.sync_api import FrameLocator, Page

from tests.support.servers import free_port, wait_for
from tests.support.without_grammars import without_grammars

REPOSITORY = Path(__file__).parents[2]
HOMES = {"CONFIG_DIR": "config", "RUNTIME_DIR": "runtime", "DATA_DIR": "data"}
HOMES = {f"JUPYTER_{name}": folder for name, folder in HOMES.items()}
HOMES |= {"JUPYTERLAB_WORKSPACES_DIR": "workspaces", "JUPYTERLAB_SETTINGS_DIR": "settings", "IPYTHONDIR": "ipython"}
NO_NEWS = '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}'
READY = """() => {
  const shown = window.jupyterapp?.shell.currentWidget, context = shown?.sessionContext;
  return Boolean(context?.isReady && shown.context.isReady && context.session?.kernel?.connectionStatus === 'connected'
    && context.session.kernel.status === 'idle');
}"""


@contextmanager
def running_lab(root: Path) -> Iterator[tuple[str, Path]]:
    """A JupyterLab that knows no settings of this machine's user: its address, and the folder it shows. What is put in `static` beside that
    has an address, too."""
    for folder in ("notebooks", "config/lab", "distribution", "static"):
        (root / folder).mkdir(parents=True)
    (root / "config" / "labconfig").mkdir()
    (root / "config" / "labconfig" / "default_setting_overrides.json").write_text(NO_NEWS)
    _announce(root / "distribution")
    port = free_port()
    options = ["--no-browser", f"--port={port}", "--ip=127.0.0.1", "--allow-root", "--IdentityProvider.token=", "--ServerApp.password="]
    options += ["--LabApp.expose_app_in_browser=True", f"--ServerApp.root_dir={root / 'notebooks'}"]
    options += [f"--ServerApp.extra_static_paths={root / 'static'}"]
    options += [f"--LabApp.extra_labextensions_path={REPOSITORY / 'workbench_jupyter' / 'labextension'}"]
    environment = {**os.environ, **{name: str(root / folder) for name, folder in HOMES.items()}}
    environment["PYTHONPATH"] = without_grammars(root / "distribution", REPOSITORY)
    with (root / "log").open("w") as log:
        server = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], env=environment, stdout=log, stderr=log)
        try:
            wait_for(f"http://127.0.0.1:{port}/api/status")
            yield f"http://127.0.0.1:{port}", root / "notebooks"
        finally:
            server.terminate()
            server.wait(20)


def _announce(folder: Path) -> None:
    """The entry points of pyproject.toml as an installed package would announce them: the checkout is tested, not what is installed."""
    points = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    lines = []
    for group, entries in points.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    info = folder / "sharding_workbench_checkout-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sharding-workbench-checkout\nVersion: 0\n")
    (info / "entry_points.txt").write_text("\n".join(lines))


def open_lab(page: Page, url: str, path: str = "") -> None:
    """A fresh workspace, with one file open if one is named."""
    page.goto(f"{url}/lab{f'/tree/{path}' if path else ''}?reset")
    page.wait_for_function("() => window.jupyterapp", timeout=60_000)
    page.evaluate("() => window.jupyterapp.restored.then(() => 1)")


def clear(page: Page) -> None:
    """Close every document, saved or not."""
    page.evaluate("""() => { for (const each of [...jupyterapp.shell.widgets("main")]) {
      if (each.context) each.context.model.dirty = false;
      each.close();
    } return 1; }""")
    page.locator("#jp-main-dock-panel .jp-Launcher").first.wait_for()


def double_click(page: Page, name: str) -> FrameLocator:
    """Open a plan file as a person does, and wait for its board."""
    command(page, "filebrowser:activate")
    command(page, "filebrowser:refresh")
    page.locator(".jp-DirListing-item", has_text=name).dblclick()
    return plan_board(page)


def plan_frame(page: Page) -> FrameLocator:
    """The page of the document in front."""
    return page.frame_locator(".jp-Document:not(.lm-mod-hidden) .sw-plan iframe")


def plan_board(page: Page) -> FrameLocator:
    """The board of the document in front, drawn."""
    frame = plan_frame(page)
    frame.locator(".wb .chip").first.wait_for(timeout=90_000)  # the first of a server starts a process
    return frame


def write_notebook(path: Path, *cells: str) -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(notebook, path)


def run_cell(page: Page, number: int) -> None:
    page.evaluate(
        "n => { jupyterapp.shell.currentWidget.content.activeCellIndex = n; jupyterapp.commands.execute('notebook:run-cell'); return 1 }",
        number,
    )


def command(page: Page, name: str, **options: str) -> None:
    page.evaluate("([name, options]) => { window.jupyterapp.commands.execute(name, options); return 1 }", [name, options])
