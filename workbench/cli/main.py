"""Entry point of the command line: parse, call the function of the command, and print user errors without a traceback.

Exit codes: 0 success, 1 an error that the user can fix (on stderr, with suggestions), 2 wrong usage, 130 Ctrl-C.
"""

import os
import sys
import time
from argparse import Namespace
from collections.abc import Sequence

from workbench.cli.command_parser import complete
from workbench.cli.parser import make_parser
from workbench.core.import_path import use_current_folder_last
from workbench.errors import WorkbenchError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show `·` shows `?`
    use_current_folder_last()  # plans name functions in the current folder
    parser = make_parser()
    complete(parser)
    options = parser.parse_args(arguments)
    options.begin = time.perf_counter()
    try:
        _say_first_phase(options)
        if options.command.needs_jax:
            _warn_if_untested()
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


def _say_first_phase(options: Namespace) -> None:
    """Print the first phase of a search before JAX is imported, which takes seconds if the disk is cold.

    `serve` prints its own phases: its process imports no JAX.
    """
    if (within := getattr(options, "within", None)) is not None:
        print(f"Loading JAX, then tracing; both count towards the {within:,.0f} s of the search.", file=sys.stderr, flush=True)


def _warn_if_untested() -> None:
    """Print a warning if the installed JAX version is untested."""
    import warnings

    from workbench.core.jax_installation import UntestedJaxWarning, untested_jax

    if (warning := untested_jax()) is not None:
        warnings.simplefilter("ignore", UntestedJaxWarning)  # printed without a line of code
        print(f"workbench: {warning}", file=sys.stderr)
