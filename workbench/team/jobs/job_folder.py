"""The folder of a job, which has all its state besides the database row, whatever the engine reports.

plan.json       the plan document
spec.json       the spec, the command of its processes, their environment, and the rendezvous address
started         who started it, created once: a job submitted twice runs once
events.jsonl    events of process 0; events.1.jsonl, ... of the others
stdout stderr   output of process 0; stdout.1, ... of the others
exit            how it ended; exit.1, ... of further hosts

A sandboxed process writes events only; the server, and the supervisor outside the sandbox, write everything else.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import open_plain
from workbench.reports.run_events import EventFile
from workbench.team.jobs.job_spec import JobSpec

EVENTS, EXIT, STARTED, SPEC, PLAN = "events.jsonl", "exit", "started", "spec.json", "plan.json"
INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CUDA_HOME"),
    *("JAX_PLATFORMS", "WORKBENCH_HARDWARE", "WORKBENCH_WITHOUT_SANDBOX", "WORKBENCH_WITHOUT_WALLS"),
)
"""Variables that a job inherits; others are dropped because they may hold secrets."""


def write_folder(
    folder: Path,
    spec: JobSpec,
    document: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    program: Path | None = None,
    data_limit: int | None = None,
) -> None:
    """Create a job's folder. `program` has its program's files; `data_limit` is the bytes per process."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PLAN).write_text(document, encoding="utf-8")
    (folder / PLAN).chmod(0o644)  # mounted by a sandbox that may run as another user; the parent folders are private
    environment = {**environment, "PYTHONPATH": python_path(program)}
    record = {"spec": spec.record(), "command": list(command), "environment": environment, "data_limit": data_limit}
    write_whole(folder / SPEC, json.dumps(record, indent=1).encode())


def read_launch(folder: Path) -> dict[str, Any]:
    launch: dict[str, Any] = json.loads((folder / SPEC).read_bytes())
    return launch


def base_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def python_path(program: Path | None = None) -> str:
    """Return the `PYTHONPATH` of a job: the workbench's, then a registered program's."""
    entries = [path or os.getcwd() for path in sys.path if not path or not path.endswith(".zip")]  # noqa: PTH109 - an empty entry is the current directory
    return os.pathsep.join([*entries, *([str(program)] if program else [])])


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_exit(folder: Path) -> Mapping[str, Any]:
    """Return how a job ended, empty before: `reason` ("ended", "cancelled" or "time"), `time`, and the `code` of the first
    failed process, negative for a signal.
    """
    return _read_json(folder / EXIT)


def read_started(folder: Path) -> Mapping[str, Any]:
    return _read_json(folder / STARTED)


def read_tail(folder: Path, name: str, most: int = 1 << 16) -> str:
    """Return the end of a job's output file (`stdout`, `stderr`, `stderr.1`); empty if there is none."""
    if not name.startswith(("stdout", "stderr")) or "/" in name:
        return ""
    try:
        with open_plain(folder / name, follow_links=False) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - most))
            return str(file.read(most).decode(errors="replace"))
    except OSError:
        return ""


def add_ending(folder: Path, kind: str, message: str = "", ways_out: Sequence[str] = ()) -> None:
    """Append the final event of a job whose process was killed; does nothing if there is one."""
    file = EventFile(folder / EVENTS)
    file.add(kind, message=message, ways_out=list(ways_out)) if kind == "failed" else file.add(kind)
    file.close()


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        with open_plain(path, follow_links=False) as file:
            content = json.loads(file.read(1 << 16))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def start_mark(pid: int) -> str:
    """Return an identifier of the process's start on this boot; empty if it does not run."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return "" if Path("/proc/self").exists() else _mark_by_ps(pid)
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else f"{_boot()}-{fields[19]}"


def has_argument(pid: int, argument: str) -> bool:
    """Return whether the process has this argument; true if the system does not tell."""
    try:
        return argument.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return not Path("/proc/self").exists()


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
    return "boot"


def _mark_by_ps(pid: int) -> str:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})  # noqa: S603 - ps alone
    state, _, started = completed.stdout.strip().partition(" ")
    return "" if not state or state.startswith("Z") else started.strip().replace(" ", "_")
