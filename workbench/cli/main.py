"""The command line, `workbench COMMAND`: it parses, calls the function of the command, and prints errors that the user can fix.

Exit codes: 0 done, 1 an error that the user can fix (printed on stderr, with suggestions), 2 wrong usage, 130 stopped with Ctrl-C.
"""

import os
import sys
from collections.abc import Sequence

from workbench.cli.command_parser import complete
from workbench.cli.parser import make_parser
from workbench.core.import_path import use_current_folder_last
from workbench.errors import WorkbenchError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. No traceback for errors that the user can fix."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show `·` shows `?`
    use_current_folder_last()  # plans name functions in the current folder
    parser = make_parser()
    complete(parser)
    options = parser.parse_args(arguments)
    try:
        if getattr(options, "unix_socket", False) is None:  # `serve` at an address for people
            print("Loading JAX ...", flush=True)  # it takes seconds where the disk is cold
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


def _warn_if_untested() -> None:
    """Print one line if the installed JAX is a version that nobody has tested."""
    import warnings

    from workbench.tracing import UntestedJaxWarning, untested_jax

    if (warning := untested_jax()) is not None:
        warnings.simplefilter("ignore", UntestedJaxWarning)  # printed without a line of code
        print(f"workbench: {warning}", file=sys.stderr)
