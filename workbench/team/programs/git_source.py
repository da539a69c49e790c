"""Read the files of a git commit or a wheel without a checkout or build.

git fetches the commit in a sandbox, lists its tree and prints its blobs. Nothing of the repository takes effect: no
hooks, configuration, filters (LFS), attributes or submodules; git writes no file but its own pack.
"""

import base64
import io
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from workbench.team.programs.fetch_policy import FetchPolicy, GitSource, ProgramRegistryError, verify_source
from workbench.team.programs.program_tree import TreeWriter
from workbench.team.sandbox.resource_limits import MIB, ResourceLimits
from workbench.team.sandbox.sandbox import Sandbox, SandboxRun
from workbench.team.sandbox.sandboxed_command import SandboxedCommand
from workbench.units import format_bytes

_LINK, _SUBMODULE = "120000", "160000"  # git tree modes
_EXEC_PATHS = ("/usr/lib/git-core", "/usr/libexec/git-core")
_FETCH_WAYS_OUT = ("check the address and the commit", "check that the repository is public")
_CONFIGURATION = """
[core]
  hooksPath = /dev/null
  fsmonitor = false
[protocol]
  allow = never
[protocol "{protocol}"]
  allow = always
[fetch]
  fsckObjects = true
  unpackLimit = 1
  recurseSubmodules = false
[http]
  followRedirects = false
  proxy = {proxy}
[credential]
  helper =
[safe]
  directory = *
[gc]
  auto = 0
[maintenance]
  auto = false
"""


class _Entry(NamedTuple):
    mode: str
    blob: str
    size: int
    name: str


@dataclass(frozen=True)
class _Repository:
    folder: Path
    sandbox: Sandbox
    policy: FetchPolicy
    git: str

    def run(self, *arguments: str, network: GitSource | None = None, stdin: bytes = b"", printed: int = 4 * MIB) -> SandboxRun:
        """Run git; it can reach a host and write only with `network`."""
        environment = {
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self.folder / "config-of-all"),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ATTR_NOSYSTEM": "1",
            **(_credentials(network, self.policy) if network else {}),
        }
        limits = ResourceLimits(
            memory=1024 * MIB,
            deadline=self.policy.seconds,
            file_size=self.policy.download,
            kept_output=2 * printed,  # the first half keeps the beginning
            output=2 * printed,
        )
        tools = (Path(self.git), *(Path(path) for path in _EXEC_PATHS if Path(path).is_dir()))
        local = (network.folder, Path("/bin/sh")) if network and network.folder else ()  # git accesses a local repository through a shell
        command = SandboxedCommand(
            (self.git, "-C", str(self.folder), *arguments),
            limits,
            (*tools, *local),
            environment=environment,
            stdin=stdin,
            our_code=True,  # git runs no code of a bare repository
        )
        if network is None:
            return self.sandbox.run(replace(command, readable=(*command.readable, self.folder)))
        return self.sandbox.run(replace(command, writable=(self.folder,), network=network.folder is None))


def write_commit(source: GitSource, policy: FetchPolicy, sandbox: Sandbox, writer: TreeWriter) -> None:
    """Fetch a commit and write its files. Raises `ProgramRegistryError` on failure or exceeded limits."""
    verify_source(source, policy)
    with _repository(source, policy, sandbox) as repository:
        run = _fetch(repository, source, "--depth=1", f"+{source.commit}:refs/heads/fetched")
        if run.ending.is_good:
            _write_entries(repository, source, writer)
            return
    if "unadvertised object" not in run.errors:
        raise ProgramRegistryError(_why_not(source, run), _FETCH_WAYS_OUT)
    with _repository(source, policy, sandbox) as repository:  # the host serves only complete branches
        run = _fetch(repository, source, "+refs/heads/*:refs/heads/*")
        if not run.ending.is_good:
            raise ProgramRegistryError(_why_not(source, run), _FETCH_WAYS_OUT)
        _write_entries(repository, source, writer)


def _fetch(repository: _Repository, source: GitSource, *what: str) -> SandboxRun:
    *options, refs = what
    plain = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
    return repository.run(*plain, *options, source.address, refs, network=source)


def _write_entries(repository: _Repository, source: GitSource, writer: TreeWriter) -> None:
    limits = repository.policy.tree
    entries = _entries(repository, source.commit)
    announced = sum(entry.size for entry in entries)
    if announced > limits.total or len(entries) > limits.files:
        raise ProgramRegistryError(
            f"The commit has {len(entries)} files with {format_bytes(announced)}; "
            f"a program may have {limits.files} with {format_bytes(limits.total)}.",
            ["put the program into a separate repository"],
        )
    _write(repository, entries, announced, writer)


@contextmanager
def _repository(source: GitSource, policy: FetchPolicy, sandbox: Sandbox) -> Iterator[_Repository]:
    git = shutil.which("git")
    if git is None:
        raise ProgramRegistryError("git is not installed on the server.", ["ask an administrator to install it", "upload a wheel"])
    with tempfile.TemporaryDirectory(prefix="workbench-git-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        protocol = "file" if source.folder else "https"
        files = {
            "HEAD": "ref: refs/heads/main\n",
            "config": "[core]\n  repositoryformatversion = 0\n  bare = true\n",
            "config-of-all": _CONFIGURATION.format(protocol=protocol, proxy=policy.proxy),
        }
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
            (folder / file).chmod(0o644)
        for part in ("objects", "refs"):
            (folder / part).mkdir()
            (folder / part).chmod(0o777)  # git runs as another user if the server is root
        yield _Repository(folder, sandbox, policy, git)


def _credentials(source: GitSource, policy: FetchPolicy) -> dict[str, str]:
    credentials = policy.credentials.get(source.host)
    if not credentials:
        return {}
    header = f"Authorization: Basic {base64.b64encode(credentials.encode()).decode()}"
    return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"http.https://{source.host}/.extraHeader", "GIT_CONFIG_VALUE_0": header}


def _why_not(source: GitSource, run: SandboxRun) -> str:
    lines = [line for line in run.errors.removeprefix("remote: ").splitlines() if line.startswith(("fatal:", "error:"))]
    reason = lines[0].partition(":")[2].strip().rstrip(".")[:300] if lines else run.ending.sentence.rstrip(".")
    return f"`{source.address}` could not be fetched at {source.commit[:12]}: {reason}."


def _entries(repository: _Repository, commit: str) -> list[_Entry]:
    run = repository.run("ls-tree", "-r", "-z", "-l", "--full-tree", f"{commit}^{{commit}}")
    if not run.ending.is_good or not run.is_whole:
        raise ProgramRegistryError(
            f"The repository has no commit {commit[:12]}, or one with too many files.", ["push the commit", "write all its 40 digits"]
        )
    entries = []
    for line in run.printed.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        head, _, name = line.partition("\t")
        mode, kind, blob, size = head.split()
        if mode != _SUBMODULE and kind == "blob":
            entries.append(_Entry(mode, blob, int(size), name))
    return entries


def _write(repository: _Repository, entries: list[_Entry], announced: int, writer: TreeWriter) -> None:
    blobs = "".join(f"{entry.blob}\n" for entry in entries).encode()
    run = repository.run("cat-file", "--batch", stdin=blobs, printed=announced + 100 * len(entries) + 1)
    if not run.ending.is_good or not run.is_whole:
        raise ProgramRegistryError(f"The files of the commit could not be read. {run.ending.sentence}", ["fetch it again"])
    offset = 0
    for entry in entries:
        offset = run.printed.index(b"\n", offset) + 1
        content = run.printed[offset : offset + entry.size]
        offset += entry.size + 1
        if entry.mode == _LINK:
            writer.link(entry.name, content.decode("utf-8", "replace"))
        else:
            writer.write(entry.name, [content])


# Wheels are only unpacked: no build step, script or dependency runs or is installed.

_FILE_NAME = re.compile(
    r"[A-Za-z0-9_.]+-[A-Za-z0-9_.!+]+(-\d[A-Za-z0-9_.]*)?-[a-z0-9.]+-(?P<abi>[a-z0-9_.]+)-(?P<platform>[a-z0-9_.]+)\.whl"
)
_CHUNK = 1 << 16
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_WAY_OUT = "build it with `python -m build --wheel`"


def verify_wheel_name(name: str) -> str:
    """Return the name of a pure-Python wheel. Raises `ProgramRegistryError` for any other."""
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        raise ProgramRegistryError(f"`{name[:120]}` is not a name of a wheel, such as `mine-1.0-py3-none-any.whl`.", [_WAY_OUT])
    if (match["abi"], match["platform"]) != ("none", "any"):
        raise ProgramRegistryError(
            f"`{name}` contains compiled code; programs must be pure Python.",
            ["ask an administrator to install the compiled package on the server"],
        )
    return name


def write_wheel(content: bytes, writer: TreeWriter) -> None:
    """Unpack a wheel. Raises `ProgramRegistryError` if it is invalid, too large, has links or outside paths."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            _verify_kind([member.filename for member in members])
            for member in members:
                _verify_member(member)
                writer.write(member.filename, _chunks(archive, member))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError, RuntimeError, OverflowError) as error:
        raise ProgramRegistryError(f"The wheel cannot be unpacked: {error}.", [_WAY_OUT]) from None


def _verify_kind(names: list[str]) -> None:
    if not any(re.fullmatch(r"[^/]+\.dist-info/WHEEL", name) for name in names):
        raise ProgramRegistryError("The file is an archive but not a wheel: it has no `.dist-info/WHEEL`.", [_WAY_OUT])


def _verify_member(member: zipfile.ZipInfo) -> None:
    mode = member.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise ProgramRegistryError(f"`{member.filename[:120]}` is not a file: wheels have no links.", [_WAY_OUT])
    if member.compress_type not in _METHODS or member.flag_bits & 1:
        raise ProgramRegistryError(f"`{member.filename[:120]}` uses a compression that wheels do not allow.", [_WAY_OUT])


def _chunks(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as file:
        while chunk := file.read(_CHUNK):
            yield chunk
