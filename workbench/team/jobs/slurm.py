"""The Slurm engine, through submitit, which writes and submits the batch script.

The job is a command line: no function is pickled, and no output of a job is unpickled. submitit's `local` executor runs
the same tasks on this machine, to try a site's configuration and in tests.

The server's data folder and Python must be on a disk that the nodes share.
"""

import shlex
import shutil
import subprocess
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

from workbench.core.installation import install_command
from workbench.team.jobs.job_folder import python_path, read_started, start_mark, write_whole
from workbench.team.jobs.job_spec import JobError, JobSpec
from workbench.team.jobs.local_engine import EngineUnavailableError, NativeState, end_process, process_state, supervisor_command

OPTIONS = {
    "partition": "the partition to queue in",
    "account": "the account to charge",
    "qos": "the quality of service",
    "constraint": "features that a node must have",
    "gpus_per_node": "GPUs per node",
    "cpus_per_task": "CPUs per process",
    "nodelist": "the nodes to use",
}
COMMANDS = ("sbatch", "srun", "scancel", "squeue")
TIME_LIMIT = 30.0  # seconds for one of Slurm's commands
SPARE = 3  # minutes of Slurm's limit beyond the job's
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SUSPENDED")
_RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED")
_BUSY = ("Unable to contact slurm controller", "Socket timed out", "Resource temporarily unavailable")
_NATIVE = "native"  # the file with Slurm's job ID
_WHOLE = ("gpus_per_node", "cpus_per_task")


class Slurm:
    """Submits to the cluster of this login node; with `executor="local"` runs on this machine."""

    name = "slurm"
    python: str | None = None
    patience = 60.0  # maximum delay of new files with NFS's default mount options
    interval = 5.0

    def __init__(self, executor: str = "slurm") -> None:
        self._executor, self.is_here = executor, executor == "local"
        if executor == "local":
            self.patience, self.interval = 2.0, 0.2

    def submit(self, spec: JobSpec, folder: Path) -> str:
        executor = self._open(spec, folder)
        try:
            job = executor._submit_command(shlex.join(supervisor_command(folder)))  # noqa: SLF001 - the only submission without a pickle
        except Exception as error:  # errors of submitit and sbatch
            kind = EngineUnavailableError if any(text in str(error) for text in _BUSY) else JobError
            raise kind(f"Slurm rejected the job: {_last_line(error)}", ["check the options of the job", "ask `sinfo`"]) from error
        native = f"{job.job_id}:{start_mark(int(job.job_id))}" if self._executor == "local" else str(job.job_id)
        write_whole(folder / _NATIVE, native.encode())
        return native

    def recover(self, spec: JobSpec, folder: Path) -> str | None:  # noqa: ARG002 - of the family
        with suppress(OSError):
            return (folder / _NATIVE).read_text(encoding="ascii").strip()
        started = read_started(folder).get("slurm")
        return started if isinstance(started, str) and started.isdecimal() else None

    def state(self, native: str) -> NativeState:
        if self._executor == "local":
            return process_state(native)
        output = _run("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", native)
        word = output.split()[0] if output.split() else ""
        return NativeState.WAITING if word in _WAITING else NativeState.RUNNING if word in _RUNNING else NativeState.GONE

    def cancel(self, native: str) -> None:
        if self._executor == "local":
            end_process(native)
        else:
            _run("scancel", native)  # SIGTERM, on which supervisors write the exit record; SIGKILL 30 s later

    def _open(self, spec: JobSpec, folder: Path) -> Any:
        if problem := _why_not(self._executor):
            raise JobError(problem, ["use another engine"])
        submitit = _import_submitit()
        (folder / "submitit").mkdir(exist_ok=True)
        executor = submitit.AutoExecutor(folder=folder / "submitit", cluster=self._executor)
        try:
            executor.update_parameters(**_parameters(spec, folder, self._executor))
        except (ValueError, TypeError, NameError) as error:
            raise JobError(f"Slurm rejected the options: {_last_line(error)}", [f"use {', '.join(OPTIONS)}"]) from None
        return executor._executor  # noqa: SLF001 - the executor of the cluster


def _parameters(spec: JobSpec, folder: Path, executor: str) -> dict[str, Any]:
    shared: dict[str, Any] = {
        "nodes": spec.hosts,
        "tasks_per_node": spec.processes,
        "timeout_min": ceil(spec.minutes) + SPARE,  # later than the supervisor's own limit, which reports the timeout
    }
    if executor == "local":
        if spec.hosts > 1:
            raise JobError("submitit's local executor has one host.", ["give hosts=1 and more processes"])
        return shared
    for name in spec.options:
        if name not in OPTIONS:
            raise JobError(f"Slurm has no option `{name[:80]}` here.", [f"use {', '.join(OPTIONS)}"])
    options = {f"slurm_{name}": int(value) if name in _WHOLE else value for name, value in spec.options.items() if name != "nodelist"}
    additional = {"export": "NONE", "no-requeue": True}
    if "nodelist" in spec.options:
        additional["nodelist"] = spec.options["nodelist"]
    if spec.memory:
        options["slurm_mem"] = f"{ceil(spec.memory * spec.processes / (1 << 20))}MB"
    return {
        **shared,
        **options,
        "name": f"workbench-{folder.name}",
        "slurm_additional_parameters": additional,
        "slurm_setup": [f"export PYTHONPATH={shlex.quote(python_path())}"],  # the server's environment is not exported
        "slurm_srun_args": ["--export=ALL", "--kill-on-bad-exit=0"],
    }


def _why_not(executor: str) -> str:
    try:
        _import_submitit()
    except JobError as error:
        return error.message
    missing = [name for name in COMMANDS if shutil.which(name) is None] if executor == "slurm" else []
    return f"Slurm's commands are not on this machine: {', '.join(missing)}." if missing else ""


def _import_submitit() -> Any:
    try:
        import submitit
    except ModuleNotFoundError:
        raise JobError("Jobs under Slurm need submitit, which is not installed.", [install_command("team")]) from None
    return submitit


def _run(*command: str) -> str:
    """Run a Slurm command and return its output; empty if the job is unknown. Raises `JobError` without an answer."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)  # noqa: S603 - Slurm's own
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JobError(f"`{command[0]}` does not answer: {type(error).__name__}.", ["check the cluster"]) from None
    if done.returncode and "Invalid job id" not in done.stderr:
        raise JobError(f"`{command[0]}` says: {done.stderr.strip()[:300]}", ["check the cluster"])
    return done.stdout


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
