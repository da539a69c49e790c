"""A command line for a sandbox, with everything that it may reach."""

import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from workbench.team.sandbox.resource_limits import ResourceLimits

SYSTEM_PREFIXES = ("/", "/usr", "/usr/local")
"""Prefixes that hold much more than Python: of these only the parts that it needs are shown."""
SYSTEM_FILES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/etc/ld.so.cache")
ALIASES = ("/lib", "/lib32", "/lib64")
"""Folders of the system that are links into /usr where the two are merged."""
_HOUSE = Path(__file__).resolve().parents[2]


def python_files() -> tuple[str, ...]:
    """Absolute paths of folders and files, none within another: to be shown read-only at the same place."""
    found = [*_of_interpreter(), *_other_packages(), *SYSTEM_FILES, *(each for each in ALIASES if not Path(each).is_symlink()), str(_HOUSE)]
    return tuple(_outermost(Path(each) for each in found if Path(each).exists()))


def import_path(*code: Path) -> str:
    """What PYTHONPATH says in a sandbox: the workbench first, so that no program stands in for it, then the program's own folders, and
    packages that are installed elsewhere than in Python's environment."""
    return ":".join([str(_HOUSE.parent), *(str(each) for each in code), *_other_packages()])


def _other_packages() -> list[str]:
    """Folders of installed packages that a `.pth` file or a user's home brought along. Other folders of the path are not shown: a checkout
    that is installed for editing, say."""
    found = [each for each in sys.path if Path(each).name in ("site-packages", "dist-packages")]
    return [each for each in found if not Path(each).is_relative_to(sys.prefix) and not Path(each).is_relative_to(sys.base_prefix)]


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
    """A path, and those that its links lead to."""
    for _ in range(16):
        yield path
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()


def _outermost(paths: Iterable[Path]) -> list[str]:
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda each: len(each.parts)):
        if not any(path.is_relative_to(each) for each in kept):
            kept.append(path)
    return sorted(map(str, kept))


HOME = "/home/planner"
_PLAIN = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "MALLOC_ARENA_MAX": "4",  # an arena of the allocator for each thread would fill the address space
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}


@dataclass(frozen=True)
class SandboxedCommand:
    """**Invariants**

    - Paths are absolute, and the same inside as outside. What is neither `readable` nor `writable`, nor of Python, is not there.
    - The environment is only what stands here: nothing is inherited.
    - Of the descriptors of the server only `descriptors` are open inside, under the same numbers.
    - It counts as other people's code unless whoever makes it says that it is `our_code`, which only reads what others wrote.
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
        """This interpreter and environment, with folders of code on its path: `python("-m", "mine", code=(folder,))`."""
        environment = {"PYTHONPATH": import_path(*code)}
        given = {"readable": code, "environment": environment, **options}
        return cls((sys.executable, "-P", *arguments), limits or ResourceLimits(), **given)  # type: ignore[arg-type]

    def with_readable(self, *paths: Path) -> "SandboxedCommand":
        """The same, with these to read too, at the place of what is within them."""
        inside = [each for each in self.readable if not any(each.is_relative_to(path) for path in paths)]
        return replace(self, readable=(*inside, *paths))

    def full_environment(self, home: str) -> dict[str, str]:
        """All variables that the process has."""
        return {**_PLAIN, "HOME": home, "TMPDIR": "/tmp", **self.environment}  # noqa: S108 - a file system of its own
