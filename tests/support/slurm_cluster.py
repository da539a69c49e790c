"""A Slurm cluster of one node, this machine, without systemd: Debian's `slurm-wlm` and `munge`, with keys and ports of its own."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.team_jobs import wait_until

DAEMONS = ("munged", "slurmctld", "slurmd")
SBIN = os.pathsep.join(["/usr/sbin", "/sbin", os.environ.get("PATH", "")])

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ReturnToService=2
MpiDefault=none
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=4000 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def is_installed() -> bool:
    """Whether a cluster can be started: its daemons run as root."""
    return all(shutil.which(each, path=SBIN) for each in (*DAEMONS, "sbatch")) and os.geteuid() == 0


@contextmanager
def running_slurm(folder: Path) -> Iterator[Path]:
    """The configuration of a cluster that runs, for `SLURM_CONF`."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge.key").chmod(0o400)
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, host=socket.gethostname().split(".")[0], ports=_ports()))
    options = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid", "log-file": "munged.log", "seed-file": "seed"}
    environment = {**os.environ, "SLURM_CONF": str(configuration), "PATH": SBIN}
    with ExitStack() as stack:
        _start(stack, folder, ["munged", "--force", *(f"--{name}={folder}/{file}" for name, file in options.items())], environment)
        _start(stack, folder, ["slurmctld"], environment)
        _start(stack, folder, ["slurmd"], environment)
        wait_until(lambda: "idle" in subprocess.run(["sinfo", "-h"], env=environment, capture_output=True, text=True, check=False).stdout)
        yield configuration


def _start(stack: ExitStack, folder: Path, command: list[str], environment: dict[str, str]) -> None:
    """A daemon, which leaves its number in a file."""
    subprocess.run(command, env=environment, check=True, timeout=60)
    number = folder / f"{command[0]}.pid"
    wait_until(lambda: number.exists() and number.read_text().strip().isdecimal())
    stack.callback(os.kill, int(number.read_text()), signal.SIGTERM)


def _ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0)), two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]
