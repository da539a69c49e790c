"""Makes what the boards are served from out of the modules in `workbench/widgets/static`: `python tools/bundle.py`.

The bundles are committed, so that whoever installs or uses the workbench needs no JavaScript tool. `tests/widgets/test_javascript.py` holds
that they are what the modules give. Deno fetches its bundler from npm when it is first asked.
"""

import os
import subprocess
import sys
from pathlib import Path

from deno import find_deno_bin

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "workbench" / "widgets" / "static"
BUNDLES = STATIC / "bundle"
ENTRIES = {
    "board.js": "main.js",  # the board, with all that it imports
    "board.css": "main.css",
    "cell.js": "notebook_cell.js",  # what a notebook keeps of it, without the comments
    "recorded.js": "recorded.js",  # the model of a page without Python; `board.js` draws it
}


def bundle(folder: Path) -> None:
    """Writes each bundle into `folder`. Run from the root, for the bundler names the modules as seen from where it runs."""
    for name, entry in ENTRIES.items():
        source = (STATIC / entry).relative_to(ROOT)
        command = [find_deno_bin(), "bundle", "--quiet", "--no-lock", "--platform", "browser", "--output", str(folder / name), str(source)]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, check=True)


if __name__ == "__main__":
    bundle(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else BUNDLES)
