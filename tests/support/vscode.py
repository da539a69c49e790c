"""The part of VS Code that shows widgets, without VS Code: what its Jupyter extension takes from npm, on a page of a Jupyter server's."""

import json
import shutil
import subprocess
from pathlib import Path

from deno import find_deno_bin
from jupyter_core.paths import jupyter_path

FROM_NPM = {"services": "@jupyterlab/services@7", "widgets": "@vscode/jupyter-ipywidgets8@1.0.9", "requirejs": "requirejs@2.3.7"}
HOST = 'export { KernelManager, ServerConnection } from "services";\nexport { activate } from "widgets";\n'


def make_host(folder: Path) -> None:
    """The page `index.html` and what it loads; anywidget's front end is where VS Code looks for it, among the notebook extensions. Raises
    `CalledProcessError` where npm cannot be reached."""
    packages = {name: f"npm:{package}" for name, package in FROM_NPM.items()}
    (folder / "deno.json").write_text(json.dumps({"nodeModulesDir": "auto", "imports": packages}))
    (folder / "entry.js").write_text(HOST)
    _deno(folder, "install", "--quiet")
    _deno(folder, "bundle", "--quiet", "--platform", "browser", "--output", "host.js", "entry.js")
    shutil.copy(Path(__file__).with_name("vscode_host.html"), folder / "index.html")
    extension = next(found for place in jupyter_path("nbextensions") if (found := Path(place) / "anywidget").exists())
    shutil.copytree(extension, folder / "anywidget")


def _deno(folder: Path, *command: str) -> None:
    subprocess.run([find_deno_bin(), *command], cwd=folder, check=True, timeout=300)
