"""The registry of programs: added, fetched, approved by digest, withdrawn. Callers authorize users.

Fetching and approving block, so they are called in a thread.

**Invariants**

- A program's files are kept from the fetch until it is withdrawn, unless another program has the same files; an
  uploaded wheel only until it is unpacked.
"""

import re
import subprocess
import threading
from pathlib import Path

from sqlalchemy import select, update

from workbench.team.programs import source_check
from workbench.team.programs.fetch_files import FetchedFiles, FetchRequest, fetch_in_process
from workbench.team.programs.fetch_policy import FetchPolicy, ProgramRegistryError, read_source
from workbench.team.programs.git_source import verify_wheel_name
from workbench.team.programs.program_tree import TreeStore
from workbench.team.sandbox.resource_limits import ResourceLimits
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.sandbox.sandboxed_command import SandboxedCommand
from workbench.team.store.store import Store, now
from workbench.team.store.tables import RegisteredProgram
from workbench.units import format_bytes

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}")


class ProgramRegistry:
    def __init__(self, store: Store, folder: Path, sandbox: Sandbox, policy: FetchPolicy | None = None) -> None:
        self.policy = policy or FetchPolicy()
        self.sandbox = sandbox
        self._store = store
        self._trees = TreeStore(folder / "trees")
        self._uploads = folder / "uploads"
        self._uploads.mkdir(parents=True, exist_ok=True)
        self._trees_lock = threading.Lock()  # prevents pruning between storing a tree and updating its row
        self._fetching: set[subprocess.Popen[bytes]] = set()

    def add_git(self, project_id: str, name: str, target: str, address: str, commit: str, by: str) -> RegisteredProgram:
        """Register a commit without fetching it. Raises `ProgramRegistryError` for an invalid address, commit or name."""
        source = read_source(address, commit)
        return self._add(project_id, name, target, "git", str(source), by)

    def add_wheel(self, project_id: str, name: str, target: str, file_name: str, content: bytes, by: str) -> RegisteredProgram:
        """Register an uploaded wheel without unpacking it. Raises `ProgramRegistryError`."""
        if len(content) > self.policy.upload:
            size, limit = format_bytes(len(content)), format_bytes(self.policy.upload)
            raise ProgramRegistryError(f"The wheel has {size}; a program may have {limit}.", ["remove data from it"])
        return self._add(project_id, name, target, "wheel", verify_wheel_name(file_name), by, content)

    def fetch(self, program_id: str) -> RegisteredProgram:
        """Fetch and check the files without running them; a failure becomes `problem`. Raises `ProgramRegistryError`."""
        program = self.get(program_id)
        if program.state not in ("added", "failed"):
            raise ProgramRegistryError(
                f"The program `{program.name}` is {program.state}; it is not fetched again.",
                ["register the new commit as a separate program"],
            )
        upload = self._uploads / program.id
        try:
            with self._trees.staging() as folder:
                source = (program.kind, program.locator, program.target, str(upload))
                fetched = fetch_in_process(FetchRequest(str(folder), *source, self.policy, self.sandbox.ability), self._fetching)
                return self._keep(program_id, folder, fetched)
        except ProgramRegistryError as error:
            return self._change(program_id, state="failed", problem=str(error), digest=None)
        finally:
            upload.unlink(missing_ok=True)

    def _keep(self, program_id: str, folder: Path, fetched: FetchedFiles) -> RegisteredProgram:
        with self._trees_lock:
            if (program := self.get(program_id)).state == "withdrawn":  # during the fetch
                return program
            self._trees.keep(folder, fetched.digest)
            return self._change(program_id, state="fetched", problem="", digest=fetched.digest, size=fetched.size)

    def approve(self, program_id: str, digest: str, by: str) -> RegisteredProgram:
        """Approve the reviewed `digest` to run. Raises `ProgramRegistryError` if it or the files differ."""
        program = self.get(program_id)
        if program.digest is None or program.state not in ("fetched", "approved"):
            raise ProgramRegistryError(
                f"The program `{program.name}` is {program.state}; only fetched programs can be approved.", ["register it again"]
            )
        if program.digest != digest:
            raise ProgramRegistryError(
                f"The program `{program.name}` is {program.digest[:12]} now, but the approval was for {digest[:12]}.", ["review it again"]
            )
        self._trees.verified(digest)
        return self._change(program_id, state="approved", problem="", approved_by=by, approved=now())

    def withdraw(self, program_id: str) -> RegisteredProgram:
        """Withdraw a program and delete its files; the caller ends processes that run it."""
        changed = self._change(program_id, state="withdrawn")
        self.prune()
        return changed

    def get(self, program_id: str) -> RegisteredProgram:
        with self._store.read() as session:
            program = session.get(RegisteredProgram, program_id)
        if program is None:
            raise ProgramRegistryError(f"There is no program `{program_id[:80]}`.", ["see the programs of the project"])
        return program

    def code_of(self, program: RegisteredProgram) -> tuple[Path, Path]:
        """Return the verified tree of an approved program, and its Python path. Raises `ProgramRegistryError`."""
        if program.state != "approved" or program.digest is None:
            raise ProgramRegistryError(
                f"The program `{program.name}` is {program.state}, so it does not run.", ["ask an owner of the project to approve it"]
            )
        tree = self._trees.verified(program.digest)
        return tree, source_check.source_root(tree, module_of(program)) or tree

    def folder_of(self, digest: str) -> Path:
        return self._trees.verified(digest)

    def prune(self) -> int:
        with self._trees_lock:
            return self._trees.prune(self._used())

    def clean(self) -> None:
        """Clean up at server start: delete unused files and unfinished fetches."""
        with self._store.write() as session:
            statement = update(RegisteredProgram).where(RegisteredProgram.state == "added")
            session.execute(statement.values(state="failed", problem="The server stopped while it was fetched. Register it again."))
        self._trees.prune(self._used(), staged=True)
        for upload in self._uploads.iterdir():
            upload.unlink()

    def close(self) -> None:
        for process in tuple(self._fetching):
            process.kill()

    def _used(self) -> set[str]:
        with self._store.read() as session:
            conditions = (RegisteredProgram.digest.is_not(None), RegisteredProgram.state != "withdrawn")
            return {digest for digest in session.scalars(select(RegisteredProgram.digest).where(*conditions)) if digest}

    def _add(
        self, project_id: str, name: str, target: str, kind: str, locator: str, by: str, content: bytes | None = None
    ) -> RegisteredProgram:
        _verify_words(name, target)
        with self._store.write() as session:
            statement = select(RegisteredProgram).where(RegisteredProgram.project_id == project_id, RegisteredProgram.name == name)
            if session.scalars(statement).first() is not None:
                raise ProgramRegistryError(
                    f"The project already has a program `{name}`.", ["choose another name, for example with its version"]
                )
            program = RegisteredProgram(project_id=project_id, name=name, target=target, kind=kind, locator=locator, by=by)
            session.add(program)
            session.flush()
            if content is not None:  # inside the transaction, so that a full disk leaves no row without its file
                (self._uploads / program.id).write_bytes(content)
        return program

    def _change(self, program_id: str, **values: object) -> RegisteredProgram:
        with self._store.write() as session:
            program = session.get(RegisteredProgram, program_id)
            if program is None:
                raise ProgramRegistryError(f"There is no program `{program_id[:80]}`.", ["see the programs of the project"])
            for name, value in values.items():
                setattr(program, name, value)
        return program


def module_of(program: RegisteredProgram) -> str:
    return program.target.partition(":")[0]


def _verify_words(name: str, target: str) -> None:
    if not _NAME.fullmatch(name):
        raise ProgramRegistryError(f"{name[:80]!a} is not a name of a program.", ["use letters, digits, spaces, `.`, `_` and `-`"])
    module, colon, function = target.partition(":")
    if not colon or not all(part.isidentifier() and part.isascii() for part in (*module.split("."), function)):
        raise ProgramRegistryError(
            f"{target[:80]!a} does not name a function of a module.", ["write `module:function`, as in a plan document"]
        )


PLANNER = "workbench.team.planning.room_process"


def sandboxed_planner_command(
    registry: ProgramRegistry, program: RegisteredProgram, descriptor: int, limits: ResourceLimits | None = None
) -> SandboxedCommand:
    """Return the planner command with the verified program on its path. Raises `ProgramRegistryError`."""
    tree, root = registry.code_of(program)
    command = SandboxedCommand.python(
        *("-m", PLANNER, str(descriptor), module_of(program)), code=(root,), limits=limits, descriptors=(descriptor,)
    )
    return command.with_readable(tree)
