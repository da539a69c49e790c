"""The text of an unexpected error where strangers may read it: its type and message, without folders of this machine."""

import re
import signal
from pathlib import Path

_QUOTED = r"(?P<quote>['\"`])(?P<quoted>/[^'\"`\n]+)(?P=quote)"
_BARE = r"(?<![^\s(\[=:,<])(?P<bare>/[^\s'\"`()\[\],:;<>]+)"
_FATAL = "Fatal Python error: "
_PATHS = re.compile(f"{_QUOTED}|{_BARE}")


def describe_error(error: BaseException) -> str:
    """The type of an error and its message.

    >>> describe_error(ZeroDivisionError("division by zero"))
    'ZeroDivisionError: division by zero'
    """
    return f"{type(error).__name__}: {strip_folders(str(error))}"


def strip_folders(text: str) -> str:
    """The text with absolute paths shortened: a file below the current folder keeps its path from there, any other its name alone.

    Only a path that begins with a folder of this machine is shortened; `/loss/eq` is the path of a value.

    >>> strip_folders("No such file: '/usr/lib/nothing here.so', as `/loss/eq` says")
    "No such file: 'nothing here.so', as `/loss/eq` says"
    """
    return _PATHS.sub(_shorten_path, text)


def _shorten_path(match: re.Match[str]) -> str:
    quote = match["quote"] or ""
    path = Path(match["quoted"] or match["bare"])
    if not _is_of_this_machine(path):
        return match[0]
    here = Path.cwd()
    short = path.relative_to(here).as_posix() if path.is_relative_to(here) and here.parts[1:] else path.name
    return f"{quote}{short}{quote}"


def _is_of_this_machine(path: Path) -> bool:
    try:
        return len(path.parts) > 1 and Path(*path.parts[:2]).exists()
    except (OSError, ValueError):  # what cannot be a path at all: a NUL, a name that is too long
        return False


def last_line(text: str) -> str:
    """The last line that is not empty, of which 300 characters: in what a process wrote before it ended, the reason as a rule.

    What Python lists when a signal ends it follows the reason, and says nothing of it.

    >>> last_line("Traceback ...\\nValueError: no\\n\\n")
    'ValueError: no'
    >>> last_line("ImportError: no module\\nFatal Python error: Aborted\\n\\nCurrent thread 0x1:\\n  <no Python frame>\\n")
    'ImportError: no module'
    """
    reason, fatal, listed = text.partition(_FATAL)
    lines = [line.strip() for line in (reason if reason.strip() else (fatal + listed.partition("\n")[0])).splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def process_end_text(status: int | None) -> str:
    """How a process ended, from its exit code or, where that is negative, from the number of the signal that ended it.

    >>> process_end_text(-9), process_end_text(3)
    ('by SIGKILL', 'with exit code 3')
    """
    return f"by {signal_name(-status)}" if status is not None and status < 0 else f"with exit code {status}"


def signal_name(number: int) -> str:
    """The name of a signal, or its number where it has none.

    >>> signal_name(11), signal_name(35)
    ('SIGSEGV', 'signal 35')
    """
    known = {*map(int, signal.Signals)}
    return signal.Signals(number).name if number in known else f"signal {number}"


def process_fate(status: int | None, *, memory_ran_out: bool) -> str:
    """What became of a process, as the rest of a sentence about it; `memory_ran_out`: whether Linux killed something for that just then.

    >>> process_fate(-9, memory_ran_out=False), process_fate(-9, memory_ran_out=True)
    ('was killed (SIGKILL)', 'was killed by Linux: out of memory')
    >>> process_fate(3, memory_ran_out=True), process_fate(None, memory_ran_out=True)
    ('ended with exit code 3', 'ended')
    """
    if status is None:
        return "ended"
    if status == -signal.SIGKILL:
        return "was killed by Linux: out of memory" if memory_ran_out else "was killed (SIGKILL)"
    return f"ended {process_end_text(status)}"
