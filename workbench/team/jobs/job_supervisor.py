"""The process that every engine starts: run a job's processes on this host and record how they ended.

Run as `python -m workbench.team.jobs.job_supervisor FOLDER`.

Each process leads its own session, so that its children end with it. SIGTERM, SIGINT and the job's time limit end them:
SIGTERM first, SIGKILL a second later. After one of several processes ends, the others have `PEERS_GRACE` seconds. The
supervisor needs no JAX.

Launchers that start one supervisor per process (Slurm, submitit's local executor, Open MPI) or per host
(`WORKBENCH_HOST`, the completion index of a Kubernetes job) set the process number; otherwise all processes run here.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from workbench.core.child_process import end_with_parent, raise_niceness
from workbench.core.memory_limits import OomKills
from workbench.core.operating_system import wait_for_signal
from workbench.core.public_error_text import describe_process_end
from workbench.team.jobs.job_folder import EVENTS, EXIT, INHERITED, STARTED, add_ending, read_launch, read_tail, start_mark, write_whole
from workbench.team.jobs.job_spec import JobSpec, own_port, parse_spec

GRACE = 1.0  # seconds from SIGTERM to SIGKILL
LOOK = 1.0  # seconds between out-of-memory checks
PEERS_GRACE = 10.0  # seconds for the other processes after one has ended
MOST_WRITTEN = 1 << 32  # bytes of one file
_KEPT = ("SLURM_", "OMPI_", "PMIX_", "TPU_", "MEGASCALE_", "NVIDIA_", "CUDA_VISIBLE_DEVICES", "JAX_COORDINATOR")
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
_LAUNCHERS = (
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("SUBMITIT_LOCAL_GLOBALID", "SUBMITIT_LOCAL_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)
_HOSTS = ("WORKBENCH_HOST", "JOB_COMPLETION_INDEX")


@dataclass
class _Supervisor:
    folder: Path
    spec: JobSpec
    command: Sequence[str]
    environment: Mapping[str, str]
    first: int
    count: int
    data_limit: int | None = None
    oom_kills: OomKills = field(default_factory=OomKills)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    reason: str = "ended"
    failed: int | None = None  # the process that failed first

    @property
    def suffix(self) -> str:
        return f".{self.first}" if self.first else ""

    def start(self) -> None:
        for number in range(self.first, self.first + self.count):
            with ExitStack() as stack:
                name = f".{number}" if number else ""
                out, err = (stack.enter_context((self.folder / f"{stream}{name}").open("wb")) for stream in ("stdout", "stderr"))
                environment = {**self.environment, **process_variables(number, self.spec, self.folder.name, os.environ)}
                self.processes.append(
                    subprocess.Popen(  # noqa: S603 - the command of the job
                        self.command,
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=err,
                        env=environment,
                        start_new_session=True,
                        preexec_fn=lambda: _limit(self.spec.memory, self.data_limit),  # noqa: PLW1509 - there are no threads here
                    )
                )

    def wait(self) -> None:
        """Wait until all processes have ended, a signal arrives or time is up. The signals are blocked and waited for."""
        deadline = time.monotonic() + self.spec.minutes * 60
        is_alone = False  # whether a process has ended, so that the others lack a peer
        while self._are_alive():
            if not is_alone and any(process.returncode is not None for process in self.processes):
                is_alone, deadline = True, min(deadline, time.monotonic() + PEERS_GRACE)
            received = wait_for_signal(_SIGNALS, min(max(deadline - time.monotonic(), 0), LOOK))
            self.oom_kills.look()
            if received not in (None, signal.SIGCHLD):
                self.reason = "cancelled"
                break
            if received is None and time.monotonic() >= deadline:
                self.reason = "ended" if is_alone else "time"
                break
        self.end()

    def _are_alive(self) -> bool:
        codes = [process.poll() for process in self.processes]
        if self.failed is None:
            self.failed = next((number for number, code in enumerate(codes) if code), None)
        return None in codes

    def end(self) -> None:
        self._are_alive()
        self._send(signal.SIGTERM, only_alive=True)
        deadline = time.monotonic() + GRACE
        while any(process.poll() is None for process in self.processes) and time.monotonic() < deadline:
            wait_for_signal([signal.SIGCHLD], max(deadline - time.monotonic(), 0))
        self._send(signal.SIGKILL, only_alive=False)
        for process in self.processes:
            process.wait()
        self._are_alive()

    def _send(self, number: int, *, only_alive: bool) -> None:
        for process in self.processes:
            if process.poll() is None or not only_alive:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)

    @property
    def code(self) -> int:
        return 0 if self.failed is None else self.processes[self.failed].returncode

    def write_end(self) -> None:
        """Write the final event if the process did not, and then the exit record."""
        if self.first == 0:
            if self.reason == "cancelled":
                add_ending(self.folder, "cancelled")
            else:
                number = self.failed or 0
                stderr = read_tail(self.folder, f"stderr.{number}" if number else "stderr", 4096)
                subject = f"Process {number} of the job" if self.spec.process_count > 1 else "The job's process"
                message, ways_out = describe_exit(
                    self.code, self.reason, self.spec, subject, stderr, memory_ran_out=self.oom_kills.is_recent()
                )
                add_ending(self.folder, "failed", message, ways_out)
        record = {"code": self.code, "reason": self.reason, "time": time.time()}
        write_whole(self.folder / (EXIT + self.suffix), json.dumps(record).encode())


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0]).absolute()
    raise_niceness()  # the inherited niceness applies within this session
    os.umask(0o077)  # other machines' default umask may let users read the job's output
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # submitit's warning before Slurm's limit, which is later than the supervisor's
    launch = read_launch(folder)
    spec = parse_spec(launch["spec"])
    first, count = own_processes(os.environ, spec)
    environment = {**inherited_variables(os.environ), **launch["environment"]}
    supervisor = _Supervisor(folder, spec, launch["command"], environment, first, count, launch.get("data_limit"))
    if not _claim(folder / (STARTED + supervisor.suffix)):
        print("Another process has started this job.", file=sys.stderr)  # noqa: T201 - for the log of the engine
        return 0
    if first == 0:
        (folder / EVENTS).touch()  # a sandbox binds a file that exists
    try:
        supervisor.start()
        supervisor.wait()
    except OSError as error:
        supervisor.end()
        if first == 0:
            add_ending(folder, "failed", f"The job's command did not start: {error.strerror}.", ["ask the operator of the server"])
    supervisor.write_end()
    return supervisor.code if 0 <= supervisor.code < 128 else 1


def own_processes(environment: Mapping[str, str], spec: JobSpec) -> tuple[int, int]:
    """Return the number of the first process on this host, and their count."""
    for number, size in _LAUNCHERS:
        if number in environment and int(environment.get(size) or 1) > 1:
            return int(environment[number]), 1
    for host in _HOSTS:
        if host in environment:
            return int(environment[host]) * spec.processes, spec.processes
    return 0, spec.process_count


def process_variables(number: int, spec: JobSpec, job_id: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the distributed-setup variables of one process; none if it is the only one."""
    if spec.process_count == 1:
        return {}
    devices = spec.devices // spec.process_count
    address = environment.get("JAX_COORDINATOR_ADDRESS") or f"{_first_host(environment)}:{spec.port or own_port(job_id)}"
    local = number % spec.processes if _HOSTS[0] in environment or _HOSTS[1] in environment else number
    is_bound = any(name in environment and int(environment.get(size) or 1) > 1 for name, size in _LAUNCHERS)
    return {
        "JAX_COORDINATOR_ADDRESS": address,
        "WORKBENCH_PROCESSES": str(spec.process_count),
        "WORKBENCH_PROCESS": str(number),
        "JAX_NUM_CPU_DEVICES": str(devices),
        **({} if is_bound else {"JAX_LOCAL_DEVICE_IDS": ",".join(str(local * devices + device) for device in range(devices))}),
    }


def inherited_variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in INHERITED or name.startswith(_KEPT)}


def describe_exit(code: int, reason: str, spec: JobSpec, who: str, stderr: str, *, memory_ran_out: bool = False) -> tuple[str, list[str]]:
    """Describe why a process ended without reporting it, with suggested fixes."""
    if reason == "time":
        return f"The job was ended after {spec.minutes:g} minutes, its limit.", ["raise its time limit", "run fewer steps"]
    if code == -signal.SIGKILL:
        memory_hints = ["raise its memory limit", "take more devices"] if memory_ran_out else []
        return f"{who} {describe_process_end(code, memory_ran_out=memory_ran_out)}.", [*memory_hints, "see its output"]
    if code < 0:
        return f"{who} crashed: signal {-code} ({signal.strsignal(-code)}).", ["see its output"]
    last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "")
    output = f" Last output: {last.strip()[:300]}" if last else ""
    return f"{who} ended with exit code {code}, without its result.{output}", ["see its output"]


def _claim(path: Path) -> bool:
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(number, "w") as file:
        json.dump({"pid": os.getpid(), "mark": start_mark(os.getpid()), "slurm": os.environ.get("SLURM_JOB_ID")}, file)
        file.flush()
        os.fsync(number)
    return True


def _first_host(environment: Mapping[str, str]) -> str:
    """Return the host of process 0. Slurm writes host lists as `node001,host2` or `node[001-015,020],host2`."""
    nodes = environment.get("SLURM_STEP_NODELIST", "")
    if not nodes:
        return "127.0.0.1"
    name, bracket, rest = nodes.split(",")[0].partition("[")
    return name + (rest.partition("-")[0].rstrip("]") if bracket else "")


def _limit(memory: int | None, data: int | None) -> None:
    end_with_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    raise_niceness()  # the supervisor's niceness, in the child's new session
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # the kernel kills jobs before the server
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, MOST_WRITTEN), (resource.RLIMIT_AS, memory), (resource.RLIMIT_DATA, data)]
    for which, most in [(which, most) for which, most in limits if most is not None]:
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (most, most) if hard == resource.RLIM_INFINITY or most <= hard else (hard, hard))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
