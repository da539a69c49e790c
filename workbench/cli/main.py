"""The command line: `workbench serve`, `report`, `run`, `compile`, `compare`, `diff`, `recipe`, `fleet`, `export`, `models`, `hardware`,
`calibrate`.

Exit codes: 0 done, 1 an error that the user can fix (printed on stderr, with the ways out), 2 wrong usage, 130 stopped with Ctrl-C.
"""

import os
import sys
import warnings
from collections.abc import Sequence

from workbench.cli.parser import make_parser
from workbench.core.import_path import use_current_folder_last
from workbench.errors import WorkbenchError
from workbench.tracing import UntestedJaxWarning, untested_jax


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. No traceback for errors that the user can fix."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show `·` shows `?`
    use_current_folder_last()  # plans name functions in the current folder
    options = make_parser().parse_args(arguments)
    if (warning := untested_jax()) is not None:
        warnings.simplefilter("ignore", UntestedJaxWarning)  # printed without a line of code
        print(f"workbench: {warning}", file=sys.stderr)
    try:
        options.command(options)
        sys.stdout.flush()
    except WorkbenchError as error:
        print(f"workbench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("workbench: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `workbench report ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
