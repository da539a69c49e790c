"""A room's process on a Ray cluster, and the relay of this machine that stands for it."""

import os
import socket
import subprocess
import tempfile
from multiprocessing.connection import Connection

from workbench.app.processes.process_connection import ENDING
from workbench.core.child_process import start_child
from workbench.core.import_path import python_path
from workbench.core.public_error_text import last_line
from workbench.engine.cluster.relay import command_on_cluster
from workbench.team.programs.launch import PLANNER
from workbench.team.rooms.room_connection import StartedPlanner


def start_on_cluster(address: str) -> StartedPlanner:
    """A new process for a room about the zoo, on the cluster at this address. It has a partitioner of its own there."""
    words = tempfile.TemporaryFile()  # noqa: SIM115 - it is read once the process has ended
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "PYTHONPATH": python_path()}
    with ours, theirs:
        process = start_child(
            command_on_cluster(address, PLANNER, theirs.fileno()),
            stdin=subprocess.DEVNULL,
            stderr=words,
            pass_fds=(theirs.fileno(),),
            env=environment,
        )
        connection = Connection(ours.detach())

    def reason(_pid: int | None) -> str:
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            return "lost its connection to the cluster"
        with words:
            words.seek(0)
            said = last_line(words.read().decode(errors="replace")).rstrip(".")
        return f"ended on the cluster: {said}" if said else "ended on the cluster"

    return StartedPlanner(connection, reason, process.kill)
