"""The folder of a job, which is all there is of it besides its row: whatever an engine says, what happened is read here.

    plan.json       the plan document
    spec.json       the spec, the command of its processes, their environment, and where they meet
    started         who has begun it, made once: a job that was given to an engine twice runs once
    events.jsonl    what its process 0 reports; of the others events.1.jsonl, ...
    stdout stderr   what it prints; of the others stdout.1, ...
    exit            how it ended; of hosts after the first exit.1, ...

Of a sandbox the events alone are written from within; everything else is written by the server, and by `supervise` outside of it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
"""What a job has of the environment of whoever starts it; nothing else of it, for it may hold secrets."""


@dataclass(frozen=True, slots=True)
class JobExit:
    """How a job ended: `reason` is "ended", "cancelled" or "time"; `code` is of the process that failed first, negative for a signal."""

    code: int
    reason: str
    time: float


def write_folder(
    folder: Path,
    spec: JobSpec,
    document: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    program: Path | None = None,
    data_limit: int | None = None,
) -> None:
    """Make the folder of a job, with everything that its engine needs; `program` is where the files of its program are, `data_limit` how
    many bytes each of its processes may allocate."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PLAN).write_text(document, encoding="utf-8")
    (folder / PLAN).chmod(0o644)  # a sandbox, which may run as another user, mounts it; the folders above are private
    environment = {**environment, "PYTHONPATH": python_path(program)}
    record = {"spec": spec.record(), "command": list(command), "environment": environment, "data_limit": data_limit}
    write_whole(folder / SPEC, json.dumps(record, indent=1).encode())


def read_launch(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / SPEC).read_bytes())
    return found


def base_environment() -> dict[str, str]:
    """What jobs have of this process's environment."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def python_path(program: Path | None = None) -> str:
    """Where a job's Python finds the workbench, and a program of the team's own after that."""
    entries = [path or os.getcwd() for path in sys.path if not path or not path.endswith(".zip")]  # noqa: PTH109 - what "" means there
    return os.pathsep.join([*entries, *([str(program)] if program else [])])


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that nobody sees half of."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_exit(folder: Path) -> JobExit | None:
    record = _read_json(folder / EXIT)
    try:
        return JobExit(int(record["code"]), str(record["reason"]), float(record["time"]))
    except (KeyError, TypeError, ValueError):
        return None


def read_started(folder: Path) -> Mapping[str, Any]:
    """Who has begun the job; empty where nobody has."""
    return _read_json(folder / STARTED)


def read_tail(folder: Path, name: str, most: int = 1 << 16) -> str:
    """The last bytes of what a job has printed: `stdout`, `stderr`, `stderr.1`; empty where there is none."""
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
    """End the events of a job whose process could not do so itself: it was killed. Nothing happens where they have ended."""
    file = EventFile(folder / EVENTS)
    file.add(kind, message=message, ways_out=list(ways_out)) if kind == "failed" else file.add(kind)
    file.close()


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        with open_plain(path, follow_links=False) as file:
            found = json.loads(file.read(1 << 16))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def start_mark(pid: int) -> str:
    """When the process with this number started, on this boot of the machine; empty where there is none, or it has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return "" if Path("/proc/self").exists() else _mark_by_ps(pid)
    fields = status.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else f"{_boot()}-{fields[19]}"


def has_argument(pid: int, argument: str) -> bool:
    """Whether the process was started with this argument; yes where the system does not say."""
    try:
        return argument.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return not Path("/proc/self").exists()


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
    return "boot"


def _mark_by_ps(pid: int) -> str:
    """Where there is no `/proc`: macOS."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})  # noqa: S603 - ps alone
    state, _, started = found.stdout.strip().partition(" ")
    return "" if not state or state.startswith("Z") else started.strip().replace(" ", "_")
