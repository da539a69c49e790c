"""The command line: `workbench serve`, `report`, `run`, `compile`, `compare`, `diff`, `recipe`, `latency`, `fleet`, `export`, `models`,
`hardware`, `calibrate`; and those about a team's server, `login`, `push`, `pull`, `submit`, `jobs`, `team`, which import no JAX.

Exit codes: 0 done, 1 an error that the user can fix (printed on stderr, with the ways out), 2 wrong usage, 130 stopped with Ctrl-C.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from workbench.cli.team_parser import TEAM_COMMANDS, make_team_parser
from workbench.core.import_path import use_current_folder_last
from workbench.errors import WorkbenchError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. No traceback for errors that the user can fix."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show `·` shows `?`
    use_current_folder_last()  # plans name functions in the current folder
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = make_team_parser().parse_args(words) if words and words[0] in TEAM_COMMANDS else _parse(words)
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


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """The options of a command about plans, which imports JAX; it is said if that is a version which nobody has tested."""
    import warnings

    from workbench.cli.parser import make_parser
    from workbench.tracing import UntestedJaxWarning, untested_jax

    options = make_parser().parse_args(words)
    if (warning := untested_jax()) is not None:
        warnings.simplefilter("ignore", UntestedJaxWarning)  # printed without a line of code
        print(f"workbench: {warning}", file=sys.stderr)
    return options
