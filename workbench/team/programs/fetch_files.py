"""Fetch a program's files in a separate process, so that unpacking and hashing do not slow down the server.

`python -m workbench.team.programs.fetch_files` reads a `FetchRequest` as JSON from standard input, writes the files
into its empty folder, and prints their digest or an error.
"""

import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from workbench.core.child_process import end_with_parent, start_child
from workbench.team.programs import source_check
from workbench.team.programs.fetch_policy import FetchPolicy, ProgramRegistryError, parse_source
from workbench.team.programs.git_source import write_commit, write_wheel
from workbench.team.programs.program_tree import TreeWriter, seal_tree
from workbench.team.sandbox.resource_limits import MIB, ResourceLimits, SandboxAbility
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.sandbox.sandboxed_command import SandboxedCommand

COMMAND = (sys.executable, "-P", "-m", "workbench.team.programs.fetch_files")
_CHECK = ResourceLimits(memory=1024 * MIB, deadline=60, processor_seconds=30)
_MEMORY, _PROCESSOR_SECONDS = 2048 * MIB, 120  # of this process; its children have their own limits
_COMMANDS = 5  # git commands, each with the policy's time limit
_LESS_URGENT = 10  # niceness relative to the server


@dataclass(frozen=True)
class FetchRequest:
    """Fetches the commit `locator`, or the wheel file `upload`, into `folder`; the files must have `target`."""

    folder: str
    kind: str
    locator: str
    target: str
    upload: str
    policy: FetchPolicy
    ability: SandboxAbility

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)


class FetchedFiles(NamedTuple):
    digest: str
    size: int


def parse_request(text: str) -> FetchRequest:
    return msgspec.json.decode(text, type=FetchRequest, dec_hook=lambda kind, value: kind(value))


def fetch_in_process(request: FetchRequest, running: "set[subprocess.Popen[bytes]]") -> FetchedFiles:
    """Fetch in a process, which is in `running` while it can be killed. Raises `ProgramRegistryError`."""
    with start_child(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        running.add(process)
        try:
            printed, _ = process.communicate(request.to_json().encode(), request.policy.seconds * _COMMANDS + _PROCESSOR_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            printed = b""
        finally:
            running.discard(process)
    answer: dict[str, Any] = json.loads(printed) if process.returncode == 0 else {}
    if "digest" in answer:
        return FetchedFiles(**answer)
    ended = "The fetch process ended early: too much memory or time, or server shutdown."
    raise ProgramRegistryError(answer.get("problem", ended), answer.get("ways_out", ["fetch less", "try once more"]))


def main() -> None:
    end_with_parent()
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_SECONDS, _PROCESSOR_SECONDS))
    os.nice(_LESS_URGENT)
    try:
        answer: dict[str, Any] = fetch(parse_request(sys.stdin.read()))._asdict()
    except ProgramRegistryError as error:
        answer = {"problem": error.message, "ways_out": error.ways_out}
    print(json.dumps(answer))  # noqa: T201 - read by the server


def fetch(request: FetchRequest) -> FetchedFiles:
    folder, sandbox = Path(request.folder), Sandbox(request.ability)
    writer = TreeWriter(folder, request.policy.tree)
    try:
        if request.kind == "git":
            write_commit(parse_source(request.locator), request.policy, sandbox, writer)
        else:
            write_wheel(_read_upload(request), writer)
        digest = seal_tree(folder)
        _check_source(folder, request.target, sandbox)
    finally:
        sandbox.close()
    return FetchedFiles(digest, writer.total)


def _read_upload(request: FetchRequest) -> bytes:
    try:
        return Path(request.upload).read_bytes()
    except FileNotFoundError:
        raise ProgramRegistryError(f"The wheel `{request.locator}` is gone.", ["upload it again"]) from None


def _check_source(tree: Path, target: str, sandbox: Sandbox) -> None:
    module, _, function = target.partition(":")
    run = sandbox.run(
        SandboxedCommand.python(source_check.__file__, str(tree), module, function, limits=_CHECK, our_code=True).with_readable(tree)
    )
    try:
        answer = json.loads(run.printed)
        problem, ways_out = str(answer["problem"]), [str(hint) for hint in answer["ways_out"]]
    except (ValueError, KeyError, TypeError):
        problem, ways_out = f"Its source could not be read. {run.ending.sentence}", ["write it plainly"]
    if problem:
        raise ProgramRegistryError(problem, ways_out)


if __name__ == "__main__":
    main()
