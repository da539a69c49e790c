"""Run a registered program's job in a sandbox: `python -m workbench.team.sandbox.sandboxed_job_main FOLDER PROGRAM
SECONDS USER DATA WITHOUT_SANDBOX -- COMMAND ...`.

The job's supervisor starts it here or on a cluster machine, so it probes that machine's sandbox itself; USER, DATA and
WITHOUT_SANDBOX are the server's `SandboxPolicy`. The command can read the job's plan and write to its existing events
file, and has no access to the rest of the folder or the network. SIGTERM ends it.
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
"""Exit status if the program may not run."""


def main(arguments: list[str]) -> int:
    """Run the command and return its exit status, or `REFUSED`."""
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
    limits = ResourceLimits(memory=16_384 * MIB, deadline=seconds, file_size=1024 * MIB, open_files=1024)
    environment = {"PYTHONPATH": import_path(program)}
    readable, writable = (program, folder / "plan.json"), (folder / "events.jsonl",)
    return SandboxedCommand(tuple(command), limits, readable=readable, writable=writable, environment=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
