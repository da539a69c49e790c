"""Format unexpected errors for untrusted readers: type and message, without folders of this machine."""

import re
import signal
from pathlib import Path

_QUOTED = r"(?P<quote>['\"`])(?P<quoted>/[^'\"`\n]+)(?P=quote)"
_BARE = r"(?<![^\s(\[=:,<])(?P<bare>/[^\s'\"`()\[\],:;<>]+)"
_FATAL = "Fatal Python error: "
_PATHS = re.compile(f"{_QUOTED}|{_BARE}")


def describe_error(error: BaseException) -> str:
    """Return the type and message of an error.

    >>> describe_error(ZeroDivisionError("division by zero"))
    'ZeroDivisionError: division by zero'
    """
    return f"{type(error).__name__}: {strip_folders(str(error))}"


def strip_folders(text: str) -> str:
    """Shorten absolute paths: relative below the current folder, otherwise the file name alone.

    Only paths below an existing top-level folder are shortened; `/loss/eq` is the path of a value.

    >>> strip_folders("No such file: '/usr/lib/nothing here.so', as `/loss/eq` says")
    "No such file: 'nothing here.so', as `/loss/eq` says"
    """
    return _PATHS.sub(_shorten_path, text)


def _shorten_path(match: re.Match[str]) -> str:
    quote = match["quote"] or ""
    path = Path(match["quoted"] or match["bare"])
    if not _is_of_this_machine(path):
        return match[0]
    current = Path.cwd()
    short = path.relative_to(current).as_posix() if path.is_relative_to(current) and current.parts[1:] else path.name
    return f"{quote}{short}{quote}"


def _is_of_this_machine(path: Path) -> bool:
    try:
        return len(path.parts) > 1 and Path(*path.parts[:2]).exists()
    except (OSError, ValueError):  # not a valid path: contains NUL, or is too long
        return False


def last_line(text: str) -> str:
    r"""Return the last non-empty line of a process's output, cut to 300 characters: usually the reason for its end.

    Python's list of frames after a fatal signal is ignored.

    >>> last_line("Traceback ...\nValueError: no\n\n")
    'ValueError: no'
    >>> last_line("ImportError: no module\nFatal Python error: Aborted\n\nCurrent thread 0x1:\n  <no Python frame>\n")
    'ImportError: no module'
    """
    reason, fatal, listed = text.partition(_FATAL)
    lines = [line.strip() for line in (reason if reason.strip() else (fatal + listed.partition("\n")[0])).splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def process_end_text(status: int | None) -> str:
    """Describe how a process ended, from its exit code (negative: signal number).

    >>> process_end_text(-9), process_end_text(3)
    ('by SIGKILL', 'with exit code 3')
    """
    return f"by {signal_name(-status)}" if status is not None and status < 0 else f"with exit code {status}"


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number if it has none.

    >>> signal_name(11), signal_name(35)
    ('SIGSEGV', 'signal 35')
    """
    numbers = {*map(int, signal.Signals)}
    return signal.Signals(number).name if number in numbers else f"signal {number}"


def describe_process_end(status: int | None, *, memory_ran_out: bool) -> str:
    """Describe the end of a process as the rest of a sentence.

    `memory_ran_out`: whether Linux killed a process for lack of memory at that moment.

    >>> describe_process_end(-9, memory_ran_out=False), describe_process_end(-9, memory_ran_out=True)
    ('was killed (SIGKILL)', 'was killed by Linux: out of memory')
    >>> describe_process_end(3, memory_ran_out=True), describe_process_end(None, memory_ran_out=True)
    ('ended with exit code 3', 'ended')
    """
    if status is None:
        return "ended"
    if status == -signal.SIGKILL:
        return "was killed by Linux: out of memory" if memory_ran_out else "was killed (SIGKILL)"
    return f"ended {process_end_text(status)}"
