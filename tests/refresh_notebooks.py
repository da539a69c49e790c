"""Runs notebooks and stores their outputs anew: `python tests/refresh_notebooks.py notebooks/*.ipynb` (or `pytest --update-golden`).

What Jupyter would store beside them is left out: widget state, which is of no use without a kernel, times, and all that names a machine.
"""

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

WIDGET = "application/vnd.jupyter.widget-view+json"


def refresh(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}, store_widget_state=False).execute()
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell["metadata"] = {}
        if cell.cell_type == "code":
            cell["outputs"] = _joined([_stripped(output) for output in cell.outputs])
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def _stripped(output: Any) -> Any:
    if "data" in output:
        output["metadata"] = {}
        output["data"].pop(WIDGET, None)
    return output


def _joined(outputs: list[Any]) -> list[Any]:
    """Text that came in several pieces as one: where it breaks is chance."""
    joined: list[Any] = []
    for output in outputs:
        if joined and output.output_type == "stream" and joined[-1].get("name") == output.name:
            joined[-1]["text"] += output.text
        else:
            joined.append(output)
    return joined


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(Path(name))
