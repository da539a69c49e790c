"""The register of a team's programs: added, fetched, approved by digest, withdrawn. Who may do that is for others to say.

Fetching and approving wait for processes and disks, so they are called in a thread.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import select

from workbench.team.programs import source_check
from workbench.team.programs.fetch_policy import FetchPolicy, ProgramRegistryError, parse_source, read_source
from workbench.team.programs.git_source import write_commit
from workbench.team.programs.program_tree import TreeStore, TreeWriter
from workbench.team.programs.wheel_source import verify_wheel_name, write_wheel
from workbench.team.sandbox.command import SandboxedCommand
from workbench.team.sandbox.limits import MIB, ResourceLimits
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.store.store import Store, new_id, now
from workbench.team.store.tables import RegisteredProgram
from workbench.units import format_bytes

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}")
_CHECK = ResourceLimits(memory=1024 * MIB, deadline=60, processor_seconds=30)


class ProgramRegistry:
    """Programs of all projects. `folder` is the server's own, for their files."""

    def __init__(self, store: Store, folder: Path, sandbox: Sandbox, policy: FetchPolicy | None = None) -> None:
        self.policy = policy or FetchPolicy()
        self.sandbox = sandbox
        self._store = store
        self._trees = TreeStore(folder / "trees")
        self._uploads = folder / "uploads"
        self._uploads.mkdir(parents=True, exist_ok=True)

    def add_git(self, project_id: str, name: str, target: str, address: str, commit: str, by: str) -> RegisteredProgram:
        """A commit of a repository, not fetched yet. Raises `ProgramRegistryError` for an address, a commit or a name that is none."""
        source = read_source(address, commit)
        return self._add(project_id, name, target, "git", str(source), by)

    def add_wheel(self, project_id: str, name: str, target: str, file_name: str, content: bytes, by: str) -> RegisteredProgram:
        """A wheel that somebody uploaded, not unpacked yet. Raises `ProgramRegistryError` as `add_git`, and for one that is too large."""
        if len(content) > self.policy.upload:
            size, limit = format_bytes(len(content)), format_bytes(self.policy.upload)
            raise ProgramRegistryError(f"The wheel has {size}; a program may have {limit}.", ["leave data out of it"])
        return self._add(project_id, name, target, "wheel", verify_wheel_name(file_name), by, content)

    def fetch(self, program_id: str) -> RegisteredProgram:
        """Fetch the files, find the function in them, and note the digest; nothing of them runs. A failure is noted as the `problem`.

        Raises `ProgramRegistryError` for a program that is approved or withdrawn.
        """
        program = self.get(program_id)
        if program.state not in ("added", "failed", "fetched"):
            raise ProgramRegistryError(
                f"The program `{program.name}` is {program.state}; it is not fetched again.", ["add the new commit as a program of its own"]
            )
        try:
            digest = self._fetch(program)
        except ProgramRegistryError as error:
            return self._change(program_id, state="failed", problem=str(error), digest=None)
        return self._change(program_id, state="fetched", problem="", digest=digest)

    def approve(self, program_id: str, digest: str, by: str) -> RegisteredProgram:
        """From now on it runs. `digest` is the one that the person has seen.

        Raises `ProgramRegistryError` for another digest, for a program that is not fetched, and where its files have been changed.
        """
        program = self.get(program_id)
        if program.digest is None or program.state not in ("fetched", "withdrawn", "approved"):
            raise ProgramRegistryError(
                f"The program `{program.name}` is {program.state}; only what was fetched can be approved.", ["fetch it"]
            )
        if program.digest != digest:
            raise ProgramRegistryError(
                f"The program `{program.name}` is {program.digest[:12]} now, and {digest[:12]} was to be approved.", ["look at it again"]
            )
        self._trees.verified(digest)
        return self._change(program_id, state="approved", problem="", approved_by=by, approved=now())

    def withdraw(self, program_id: str) -> RegisteredProgram:
        """From now on it does not run; processes that run it are for the caller to end."""
        return self._change(program_id, state="withdrawn")

    def get(self, program_id: str) -> RegisteredProgram:
        """Raises `ProgramRegistryError` where there is none."""
        with self._store.read() as session:
            found = session.get(RegisteredProgram, program_id)
        if found is None:
            raise ProgramRegistryError(f"There is no program `{program_id[:80]}`.", ["look at the programs of the project"])
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
        """Remove the files of programs that no row names any more; how many programs they were."""
        with self._store.read() as session:
            used = session.scalars(select(RegisteredProgram.digest).where(RegisteredProgram.digest.is_not(None))).all()
        return self._trees.prune(each for each in used if each)

    def _add(
        self, project_id: str, name: str, target: str, kind: str, locator: str, by: str, content: bytes | None = None
    ) -> RegisteredProgram:
        _verify_words(name, target)
        with self._store.write() as session:
            asked = select(RegisteredProgram).where(RegisteredProgram.project_id == project_id, RegisteredProgram.name == name)
            if session.scalars(asked).first() is not None:
                raise ProgramRegistryError(f"The project has a program `{name}` already.", ["give it another name, with its version"])
            program = RegisteredProgram(
                id=new_id(),
                project_id=project_id,
                name=name,
                target=target,
                kind=kind,
                locator=locator,
                state="added",
                by=by,
                created=now(),
            )
            session.add(program)
            if content is not None:  # within the transaction: on a full disk there is no row without its file
                (self._uploads / program.id).write_bytes(content)
        return program

    def _fetch(self, program: RegisteredProgram) -> str:
        with self._trees.staging(self.policy.tree) as writer:
            self._write_source(program)(writer)
            digest = self._trees.keep(writer)
        self._check_source(self._trees.verified(digest), program)
        return digest

    def _write_source(self, program: RegisteredProgram) -> Callable[[TreeWriter], None]:
        if program.kind == "git":
            return lambda writer: write_commit(parse_source(program.locator), self.policy, self.sandbox, writer)
        upload = self._uploads / program.id
        if not upload.is_file():
            raise ProgramRegistryError(f"The wheel `{program.locator}` is gone.", ["upload it again"])
        return lambda writer: write_wheel(upload.read_bytes(), writer)

    def _check_source(self, tree: Path, program: RegisteredProgram) -> None:
        """Raises `ProgramRegistryError` for what prevents the function from being built."""
        module, _, function = program.target.partition(":")
        run = self.sandbox.run(
            SandboxedCommand.python(source_check.__file__, str(tree), module, function, limits=_CHECK, our_code=True).with_readable(tree)
        )
        try:
            answer = json.loads(run.printed)
            problem, ways_out = str(answer["problem"]), [str(each) for each in answer["ways_out"]]
        except (ValueError, KeyError, TypeError):
            problem, ways_out = f"Its source could not be read. {run.ending.sentence}", ["write it plainly"]
        if problem:
            raise ProgramRegistryError(problem, ways_out)

    def _change(self, program_id: str, **values: object) -> RegisteredProgram:
        with self._store.write() as session:
            program = session.get(RegisteredProgram, program_id)
            if program is None:
                raise ProgramRegistryError(f"There is no program `{program_id[:80]}`.", ["look at the programs of the project"])
            for name, value in values.items():
                setattr(program, name, value)
        return program


def module_of(program: RegisteredProgram) -> str:
    """The module that its documents may name."""
    return program.target.partition(":")[0]


def _verify_words(name: str, target: str) -> None:
    if not _NAME.fullmatch(name):
        raise ProgramRegistryError(f"{name[:80]!a} is no name of a program.", ["use letters, digits, spaces, `.`, `_` and `-`"])
    module, colon, function = target.partition(":")
    if not colon or not all(part.isidentifier() and part.isascii() for part in (*module.split("."), function)):
        raise ProgramRegistryError(f"{target[:80]!a} names no function of a module.", ["write `module:function`, as in a plan document"])
