"""What JupyterLab needs of the workbench: its extension (`labextension/`, plain JavaScript, nothing to build) and the server behind it.

This package stands beside `workbench` and not in it: Jupyter's server imports it when it starts, and `workbench` would load JAX there.
"""

import sys
from typing import Any


def board_server() -> dict[str, Any]:
    """How jupyter-server-proxy serves the boards of plan documents, at `workbench/` under Jupyter's own address and sign-in.

    The process starts with the first document, and listens at a socket that only this user may open. Documents may name programs of the
    modules that the environment variable `WORKBENCH_ALLOW` names (`mine,other`), and of the zoo.
    """
    return {
        "command": [sys.executable, "-P", "-m", "workbench.cli", "serve", "--unix-socket", "{unix_socket}"],
        "unix_socket": True,
        "timeout": 120,  # seconds, on a machine that is busy and has nothing in its caches; it takes 2 by itself
        "launcher_entry": {"enabled": False},  # the extension has a tile of its own
        "new_browser_tab": False,
    }
