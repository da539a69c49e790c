"""Which files a Python needs to run: its own, those of its environment, the libraries of the system, and the workbench."""

import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

SYSTEM_PREFIXES = ("/", "/usr", "/usr/local")
"""Prefixes that hold much more than Python: of these only the parts that it needs are shown."""
SYSTEM_FILES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/etc/ld.so.cache")
ALIASES = ("/lib", "/lib32", "/lib64")
"""Folders of the system that are links into /usr where the two are merged."""
_HOUSE = Path(__file__).resolve().parents[2]


def python_files() -> tuple[str, ...]:
    """Absolute paths of folders and files, none within another: to be shown read-only at the same place."""
    found = [*_of_interpreter(), *_other_packages(), *SYSTEM_FILES, *_without_links(ALIASES), str(_HOUSE)]
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


def _without_links(paths: Iterable[str]) -> list[str]:
    return [each for each in paths if not Path(each).is_symlink()]


def _outermost(paths: Iterable[Path]) -> list[str]:
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda each: len(each.parts)):
        if not any(path.is_relative_to(each) for each in kept):
            kept.append(path)
    return sorted(map(str, kept))
