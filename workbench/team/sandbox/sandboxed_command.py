"""A sandboxed command line and everything that it can access."""

import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from workbench.team.sandbox.resource_limits import ResourceLimits

SYSTEM_PREFIXES = ("/", "/usr", "/usr/local")
"""Prefixes that contain much more than Python; only the required parts are visible."""
SYSTEM_FILES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/etc/ld.so.cache")
ALIASES = ("/lib", "/lib32", "/lib64")
"""System folders that are links into /usr on merged systems."""
_HOUSE = Path(__file__).resolve().parents[2]


def python_files() -> tuple[str, ...]:
    """Return the absolute, non-nested paths of Python and the workbench, which are mounted read-only in place."""
    paths = [*_of_interpreter(), *_other_packages(), *SYSTEM_FILES, *(path for path in ALIASES if not Path(path).is_symlink()), str(_HOUSE)]
    return tuple(_outermost(Path(path) for path in paths if Path(path).exists()))


def import_path(*code: Path) -> str:
    """Return the PYTHONPATH: the workbench first, so that programs cannot replace it, then program and packages."""
    return ":".join([str(_HOUSE.parent), *(str(path) for path in code), *_other_packages()])


def _other_packages() -> list[str]:
    """Return package folders of `.pth` files or a user's home, but no other folders, such as checkouts."""
    folders = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return [path for path in folders if not Path(path).is_relative_to(sys.prefix) and not Path(path).is_relative_to(sys.base_prefix)]


def _of_interpreter() -> Iterator[str]:
    for executable in _chain(Path(sys.executable)):
        yield str(executable)
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        if prefix not in SYSTEM_PREFIXES:
            yield from (prefix, str(Path(prefix).resolve()))
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield sysconfig.get_path(name)
    if sys.base_prefix == "/usr/local":
        yield "/usr/local/lib"


def _chain(path: Path) -> Iterator[Path]:
    for _ in range(16):
        yield path
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()


def _outermost(paths: Iterable[Path]) -> list[str]:
    outermost: list[Path] = []
    for path in sorted(set(paths), key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(folder) for folder in outermost):
            outermost.append(path)
    return sorted(map(str, outermost))


HOME = "/home/planner"
_PLAIN = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "MALLOC_ARENA_MAX": "4",  # one arena per thread would fill the address space
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}


@dataclass(frozen=True)
class SandboxedCommand:
    """A command to run in a sandbox.

    **Invariants**

    - Paths are absolute and the same inside and outside. Only `readable`, `writable` and Python's paths exist inside.
    - Nothing is inherited from the server's environment.
    - Of the server's descriptors only `descriptors` are open inside, with the same numbers.
    - The command counts as user code unless it is `our_code`, which only reads others' files.
    """

    arguments: tuple[str, ...]
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()
    network: bool = False
    stdin: bytes = b""
    our_code: bool = False

    @classmethod
    def python(
        cls, *arguments: str, code: tuple[Path, ...] = (), limits: ResourceLimits | None = None, **options: object
    ) -> "SandboxedCommand":
        """Return a command of this interpreter: `python("-m", "mine", code=(folder,))`."""
        environment = {"PYTHONPATH": import_path(*code)}
        fields = {"readable": code, "environment": environment, **options}
        return cls((sys.executable, "-P", *arguments), limits or ResourceLimits(), **fields)  # type: ignore[arg-type]

    def with_readable(self, *paths: Path) -> "SandboxedCommand":
        """Add readable paths, which replace paths inside them."""
        inside = [existing for existing in self.readable if not any(existing.is_relative_to(path) for path in paths)]
        return replace(self, readable=(*inside, *paths))

    def full_environment(self, home: str) -> dict[str, str]:
        return {**_PLAIN, "HOME": home, "TMPDIR": "/tmp", **self.environment}  # noqa: S108 - private to the sandbox
