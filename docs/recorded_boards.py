"""A Sphinx extension: pages with recorded boards load the script that shows them, which is one file for the whole site."""

from pathlib import Path
from typing import Any

from workbench.widgets.front_end import recorded_script

SCRIPT = "workbench_board.js"


def _write_script(app: Any, error: Exception | None) -> None:
    if error is None:
        (Path(app.outdir) / "_static" / SCRIPT).write_text(recorded_script(), encoding="utf-8")


def _add_script(app: Any, _pagename: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    if "recorded-board" in context.get("body", ""):
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("html-page-context", _add_script)
    app.connect("build-finished", _write_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
