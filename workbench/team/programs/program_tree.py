"""A program's files in a folder named by their SHA-256.

**Invariants**

- Every path is relative and within the folder; so are the targets of symbolic links.
- A stored tree is read-only, and is verified against its digest before each use.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path, PurePosixPath

from workbench.team.programs.fetch_policy import ProgramRegistryError, TreeLimits
from workbench.units import format_bytes

_DEPTH, _NAME = 32, 200  # maximum folder depth, characters of a name
_CHUNK = 1 << 20
_STAGING = "new-"


class TreeWriter:
    """Writes a program's files within limits. Raises `ProgramRegistryError` for forbidden content."""

    def __init__(self, folder: Path, limits: TreeLimits) -> None:
        self.folder, self._limits = folder, limits
        self.total = 0  # bytes so far
        self._files = 0

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write a file, counting the actual bytes: sizes stated by an archive are not trusted."""
        path = self._new_path(name)
        size = 0
        with path.open("xb") as file:
            for chunk in chunks:
                size += len(chunk)
                self._count_bytes(name, size, len(chunk))
                file.write(chunk)

    def link(self, name: str, target: str) -> None:
        """Create a symbolic link; `verify_links` later checks that it stays within the folder."""
        if not target or "\0" in target or len(target) > _DEPTH * _NAME:
            raise ProgramRegistryError(f"The link `{name[:120]}` is broken.", ["remove it from the program"])
        self._new_path(name).symlink_to(target)

    def _new_path(self, name: str) -> Path:
        self._files += 1
        if self._files > self._limits.files:
            raise ProgramRegistryError(f"It has more than {self._limits.files} files.", ["put the program into a separate repository"])
        path = self.folder.joinpath(*path_parts(name))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            raise ProgramRegistryError(f"`{name[:120]}` is below a file.", ["rebuild the archive"]) from None
        if path.is_symlink() or path.exists() or not path.parent.resolve().is_relative_to(self.folder.resolve()):
            raise ProgramRegistryError(f"`{name[:120]}` occurs twice, or is below a link.", ["rebuild the archive"])
        return path

    def _count_bytes(self, name: str, size: int, added: int) -> None:
        self.total += added
        if size > self._limits.each:
            limit = format_bytes(self._limits.each)
            raise ProgramRegistryError(
                f"`{name[:120]}` is larger than {limit}, the limit for a file of a program.", ["keep data elsewhere"]
            )
        if self.total > self._limits.total:
            raise ProgramRegistryError(
                f"Its files have more than {format_bytes(self._limits.total)} in total.", ["put the program into a separate repository"]
            )


def path_parts(name: str) -> tuple[str, ...]:
    """Split a relative path. Raises `ProgramRegistryError` for a path that could leave the folder.

    >>> path_parts("models/mine.py")
    ('models', 'mine.py')
    """
    parts = PurePosixPath(name).parts
    is_plain = name.isprintable() and "\\" not in name and len(parts) <= _DEPTH and all(len(part) <= _NAME for part in parts)
    if not parts or not is_plain or name.startswith("/") or ".." in parts or parts[0].endswith(":") or ".git" in map(str.lower, parts):
        raise ProgramRegistryError(f"{name[:120]!a} is not a path of a file within a program.", ["rename the file"])
    return parts


def digest_of_tree(folder: Path) -> str:
    """Return the SHA-256 of paths, kinds and contents. Raises `ProgramRegistryError` for special files."""
    digest = sha256()
    for path in sorted(_below(folder), key=lambda path: path.relative_to(folder).as_posix()):
        name = path.relative_to(folder).as_posix().encode()
        kind, content = (b"link", _target(path).encode()) if path.is_symlink() else (b"file", _digest_of_file(path))
        digest.update(b"%b %d %b %d %b\n" % (kind, len(name), name, len(content), content))
    return digest.hexdigest()


def _target(link: Path) -> str:
    return os.readlink(link)  # noqa: PTH115 - a `Path` would normalize it


def _digest_of_file(path: Path) -> bytes:
    content = sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            content.update(chunk)
    return content.digest()


def _below(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                yield from _below(Path(entry))
            elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                yield Path(entry)
            else:
                raise ProgramRegistryError(f"`{entry.name}` is not a file.", ["fetch the program again"])


def verify_links(folder: Path) -> None:
    """Raise `ProgramRegistryError` for a link that leaves the folder, directly or indirectly."""
    root = folder.resolve()
    for path in _below(folder):
        if path.is_symlink() and (_target(path).startswith("/") or not _resolved(path).is_relative_to(root)):
            name, target = path.relative_to(folder), _target(path)[:120]
            raise ProgramRegistryError(f"`{name}` is a link to `{target}`, which is outside of the program.", ["remove the link"])


def _resolved(path: Path) -> Path:
    """Resolve a link; a circular one resolves to the root, which is never inside the folder."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return Path("/")


class TreeStore:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Create an empty folder, which is deleted afterwards unless it was stored."""
        folder = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self._folder))
        folder.chmod(0o755)
        try:
            yield folder
        finally:
            _remove(folder)

    def keep(self, folder: Path, digest: str) -> None:
        if not (self._folder / digest).exists():
            folder.rename(self._folder / digest)

    def verified(self, digest: str) -> Path:
        """Return the folder of an unchanged tree. Raises `ProgramRegistryError` if it is missing or changed."""
        folder = self._folder / digest
        if not folder.is_dir():
            raise ProgramRegistryError(f"The files of the program ({digest[:12]}) are gone.", ["fetch it again"])
        if digest_of_tree(folder) != digest:
            raise ProgramRegistryError(
                f"The files of the program ({digest[:12]}) were changed after the fetch: the program does not run.",
                ["fetch it again", "check who wrote to the server's folder"],
            )
        verify_links(folder)
        return folder

    def prune(self, used: Collection[str], *, staged: bool = False) -> int:
        unused = [tree for tree in self._folder.iterdir() if tree.name not in used and (staged or not tree.name.startswith(_STAGING))]
        for tree in unused:
            _remove(tree)
        return len(unused)


def seal_tree(folder: Path) -> str:
    """Make a complete tree read-only and return its digest. Raises `ProgramRegistryError` for links that leave it."""
    verify_links(folder)
    freeze(folder)
    return digest_of_tree(folder)


def freeze(folder: Path) -> None:
    """Make a tree readable and not writable for everybody, because a sandbox runs as another user."""
    for path, folders, files in os.walk(folder, topdown=False):
        for name in files:
            if not (file := Path(path, name)).is_symlink():
                file.chmod(0o444)
        for name in folders:
            if not (inner := Path(path, name)).is_symlink():
                inner.chmod(0o555)
    folder.chmod(0o755)


def _remove(folder: Path) -> None:
    for path, _, _ in os.walk(folder):
        Path(path).chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)
