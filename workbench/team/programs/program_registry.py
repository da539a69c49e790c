"""The register of a team's programs: added, fetched, approved by digest, withdrawn. Who may do that is for others to say.

Fetching and approving wait for processes and disks, so they are called in a thread.

**Invariants**

- The files of a program are kept from when they are fetched until it is withdrawn, if no other program has the same; an uploaded wheel only
  until it is unpacked.
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
    """Programs of all projects. `folder` is the server's own, for their files."""

    def __init__(self, store: Store, folder: Path, sandbox: Sandbox, policy: FetchPolicy | None = None) -> None:
        self.policy = policy or FetchPolicy()
        self.sandbox = sandbox
        self._store = store
        self._trees = TreeStore(folder / "trees")
        self._uploads = folder / "uploads"
        self._uploads.mkdir(parents=True, exist_ok=True)
        self._trees_lock = threading.Lock()  # from when a tree is kept until its row says so, none is pruned
        self._fetching: set[subprocess.Popen[bytes]] = set()

    def add_git(self, project_id: str, name: str, target: str, address: str, commit: str, by: str) -> RegisteredProgram:
        """A commit of a repository, not fetched yet. Raises `ProgramRegistryError` for an address, a commit or a name that is none."""
        source = read_source(address, commit)
        return self._add(project_id, name, target, "git", str(source), by)

    def add_wheel(self, project_id: str, name: str, target: str, file_name: str, content: bytes, by: str) -> RegisteredProgram:
        """A wheel that somebody uploaded, not unpacked yet. Raises `ProgramRegistryError` as `add_git`, and for one that is too large."""
        if len(content) > self.policy.upload:
            size, limit = format_bytes(len(content)), format_bytes(self.policy.upload)
            raise ProgramRegistryError(f"The wheel has {size}; a program may have {limit}.", ["remove data from it"])
        return self._add(project_id, name, target, "wheel", verify_wheel_name(file_name), by, content)

    def fetch(self, program_id: str) -> RegisteredProgram:
        """Fetch the files, find the function in them, and note the digest; nothing of them runs. A failure is noted as the `problem`.

        Raises `ProgramRegistryError` for a program that was fetched.
        """
        program = self.get(program_id)
        if program.state not in ("added", "failed"):
            raise ProgramRegistryError(
                f"The program `{program.name}` is {program.state}; it is not fetched again.",
                ["register the new commit as a separate program"],
            )
        upload = self._uploads / program.id
        try:
            with self._trees.staging() as folder:
                of_source = (program.kind, program.locator, program.target, str(upload))
                fetched = fetch_in_process(FetchRequest(str(folder), *of_source, self.policy, self.sandbox.ability), self._fetching)
                return self._keep(program_id, folder, fetched)
        except ProgramRegistryError as error:
            return self._change(program_id, state="failed", problem=str(error), digest=None)
        finally:
            upload.unlink(missing_ok=True)

    def _keep(self, program_id: str, folder: Path, fetched: FetchedFiles) -> RegisteredProgram:
        with self._trees_lock:
            if (program := self.get(program_id)).state == "withdrawn":  # meanwhile
                return program
            self._trees.keep(folder, fetched.digest)
            return self._change(program_id, state="fetched", problem="", digest=fetched.digest, size=fetched.size)

    def approve(self, program_id: str, digest: str, by: str) -> RegisteredProgram:
        """From now on it runs. `digest` is the one that the person has seen.

        Raises `ProgramRegistryError` for another digest, for a program that is not fetched, and where its files have been changed.
        """
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
        """From now on it does not run, and its files are removed; processes that run it are for the caller to end."""
        changed = self._change(program_id, state="withdrawn")
        self.prune()
        return changed

    def get(self, program_id: str) -> RegisteredProgram:
        """Raises `ProgramRegistryError` where there is none."""
        with self._store.read() as session:
            found = session.get(RegisteredProgram, program_id)
        if found is None:
            raise ProgramRegistryError(f"There is no program `{program_id[:80]}`.", ["see the programs of the project"])
        return found

    def code_of(self, program: RegisteredProgram) -> tuple[Path, Path]:
        """The verified files of an approved program, and the folder of them that goes on the path of Python.

        Raises `ProgramRegistryError` for one that is not approved, and where its files have been changed.
        """
        if program.state != "approved" or program.digest is None:
            raise ProgramRegistryError(
                f"The program `{program.name}` is {program.state}, so it does not run.", ["ask an owner of the project to approve it"]
            )
        tree = self._trees.verified(program.digest)
        return tree, source_check.source_root(tree, module_of(program)) or tree

    def folder_of(self, digest: str) -> Path:
        """The verified files of a digest. Raises `ProgramRegistryError` where they have been changed, or are gone."""
        return self._trees.verified(digest)

    def prune(self) -> int:
        """Remove the files that no program needs; of how many programs they were."""
        with self._trees_lock:
            return self._trees.prune(self._used())

    def clean(self) -> None:
        """At the start of a server: remove what no program needs, and what the server before left half done."""
        with self._store.write() as session:
            stopped = update(RegisteredProgram).where(RegisteredProgram.state == "added")
            session.execute(stopped.values(state="failed", problem="The server stopped while it was fetched. Register it again."))
        self._trees.prune(self._used(), staged=True)
        for each in self._uploads.iterdir():
            each.unlink()

    def close(self) -> None:
        for each in tuple(self._fetching):
            each.kill()

    def _used(self) -> set[str]:
        with self._store.read() as session:
            kept = (RegisteredProgram.digest.is_not(None), RegisteredProgram.state != "withdrawn")
            return {each for each in session.scalars(select(RegisteredProgram.digest).where(*kept)) if each}

    def _add(
        self, project_id: str, name: str, target: str, kind: str, locator: str, by: str, content: bytes | None = None
    ) -> RegisteredProgram:
        _verify_words(name, target)
        with self._store.write() as session:
            asked = select(RegisteredProgram).where(RegisteredProgram.project_id == project_id, RegisteredProgram.name == name)
            if session.scalars(asked).first() is not None:
                raise ProgramRegistryError(
                    f"The project already has a program `{name}`.", ["choose another name, for example with its version"]
                )
            program = RegisteredProgram(project_id=project_id, name=name, target=target, kind=kind, locator=locator, by=by)
            session.add(program)
            session.flush()
            if content is not None:  # within the transaction: on a full disk there is no row without its file
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
    """The module that its documents may name."""
    return program.target.partition(":")[0]


def _verify_words(name: str, target: str) -> None:
    if not _NAME.fullmatch(name):
        raise ProgramRegistryError(f"{name[:80]!a} is not a name of a program.", ["use letters, digits, spaces, `.`, `_` and `-`"])
    module, colon, function = target.partition(":")
    if not colon or not all(part.isidentifier() and part.isascii() for part in (*module.split("."), function)):
        raise ProgramRegistryError(
            f"{target[:80]!a} does not name a function of a module.", ["write `module:function`, as in a plan document"]
        )


PLANNER = "workbench.team.planning.planner_main"


def sandboxed_planner_command(
    registry: ProgramRegistry, program: RegisteredProgram, descriptor: int, limits: ResourceLimits | None = None
) -> SandboxedCommand:
    """`python -P -m planner_main DESCRIPTOR MODULE`, with the program's files on its path; its files are verified first.

    Raises `ProgramRegistryError` for a program that is not approved, and where its files have been changed.
    """
    tree, root = registry.code_of(program)
    command = SandboxedCommand.python(
        *("-m", PLANNER, str(descriptor), module_of(program)), code=(root,), limits=limits, descriptors=(descriptor,)
    )
    return command.with_readable(tree)
