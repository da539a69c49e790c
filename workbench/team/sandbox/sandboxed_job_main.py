"""Runs a job of a registered program in a sandbox:
`python -m workbench.team.sandbox.sandboxed_job_main FOLDER PROGRAM SECONDS USER DATA WITHOUT_SANDBOX -- COMMAND ...`.

The supervisor of a job starts it, here or on a machine of a cluster, so it finds out for itself what sandbox that machine has; the three
words before the command are the `SandboxPolicy` of the server. The command may read the job's plan and write into its file of events, which
exists, and nothing else of the folder. It has no network. SIGTERM ends it.
"""

import signal
import sys
from pathlib import Path
from types import FrameType

from workbench.team.sandbox.probe_sandbox import probe
from workbench.team.sandbox.resource_limits import MIB, ResourceLimits, SandboxError, SandboxPolicy
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.sandbox.sandboxed_command import SandboxedCommand, import_path

REFUSED = 77
"""Exit status where the program may not run."""


def main(arguments: list[str]) -> int:
    """The exit status of the command, or `REFUSED`."""
    folder, program, seconds, user, data, without_sandbox, _, *command = arguments
    sandbox = Sandbox(probe(policy=SandboxPolicy.of_machine(user, Path(data), bool(without_sandbox))))
    try:
        process = sandbox.start(confined_command(Path(folder), Path(program), float(seconds), command))
    except SandboxError as error:
        print(error.message, file=sys.stderr)  # noqa: T201 - a job's output
        return REFUSED

    def end(_signal: int, _frame: FrameType | None) -> None:
        process.kill()

    signal.signal(signal.SIGTERM, end)
    ending = process.wait()
    sys.stdout.buffer.write(process.printed.content)
    sys.stderr.write(process.errors.text())
    sandbox.close()
    if ending is None or ending.is_good:
        return 0
    print(ending.sentence, file=sys.stderr)  # noqa: T201 - a job's output
    return 1


def confined_command(folder: Path, program: Path, seconds: float, command: list[str]) -> SandboxedCommand:
    """The command of a job, which reads the program's files and its plan, and writes events."""
    limits = ResourceLimits(memory=16_384 * MIB, deadline=seconds, file_size=1024 * MIB, open_files=1024)
    environment = {"PYTHONPATH": import_path(program)}
    readable, writable = (program, folder / "plan.json"), (folder / "events.jsonl",)
    return SandboxedCommand(tuple(command), limits, readable=readable, writable=writable, environment=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
