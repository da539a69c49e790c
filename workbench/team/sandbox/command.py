"""A command line for a sandbox, with everything that it may reach."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from workbench.team.sandbox.limits import ResourceLimits
from workbench.team.sandbox.python_files import import_path

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
