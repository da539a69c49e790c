"""The layout `as written`: how the traced program lays out its own arguments, as overrides that a person can read and change."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.path_patterns import matches, template
from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.errors import LayoutError

AS_WRITTEN = "as written"


def read_layout(given: Layout | str | None, program: Program, mesh: Mesh) -> Layout:
    """The layout that was given; the program's own where it says so, or where none was given and the program fits the mesh."""
    if isinstance(given, Layout):
        return given
    if given is None:
        used = program.step.written.axes
        return written_layout(program, mesh) if used and all(axis in mesh for axis in used) else Layout("")
    says_so = isinstance(given, str) and given.strip().lower() == AS_WRITTEN
    return written_layout(program, mesh) if says_so else Layout(given)


def written_layout(program: Program, mesh: Mesh) -> Layout:
    """The overrides of all arguments that the program splits itself; the moments of a parameter are split as it is.

    The mesh may have other sizes than the program was written for, but has the same axes. Raises `LayoutError` where it lacks one, and
    for a program that lays out nothing.
    """
    written = program.step.written
    if not written.axes:
        raise LayoutError(
            f"`{program.name}` does not lay out its arguments itself.",
            ["give arguments a `sharding=jax.sharding.NamedSharding(...)`", "write a layout, such as `batch:data`"],
        )
    if missing := [name for name, _ in written.mesh if name in written.axes and name not in mesh]:
        sizes = " ".join(f"{name}:{size}" for name, size in written.mesh)
        raise LayoutError(
            f"`{program.name}` lays out its arguments over `{missing[0]}`, which the mesh `{mesh}` does not have.",
            [f"plan it on `{sizes}`", "write another layout"],
        )
    return Layout(overrides=tuple(_overrides(program)))


def _overrides(program: Program) -> Iterator[tuple[str, Sharding]]:
    written = {
        tensor.path: sharding
        for tensor, sharding in zip(program.arguments, program.step.written.shardings, strict=True)
        if sharding is not None and sharding.axes
    }
    moments = {each.path for each in program.arguments if each.role is Role.OPTIMIZER_STATE} - written.keys()
    by_name = defaultdict[str, list[str]](list)
    for tensor in program.arguments:
        by_name[tensor.path.rpartition("/")[2]].append(tensor.path)
    done: set[str] = set()
    for path, sharding in written.items():
        if path not in done:
            pattern, named = _pattern(path, sharding, written, moments, by_name)
            done.update(named)
            yield pattern, sharding


def _pattern(
    path: str, sharding: Sharding, written: Mapping[str, Sharding], moments: set[str], by_name: Mapping[str, list[str]]
) -> tuple[str, list[str]]:
    """The pattern that names the most arguments of this sharding and no other, and those: of all layers, of a weight with its moments, or
    the argument alone."""
    tail = path.partition("/")[2] or path
    for pattern in (template(tail), template(path), tail):
        last = pattern.rpartition("/")[2]
        paths = by_name.get(last, ()) if "*" not in last else [each for paths in by_name.values() for each in paths]
        named = [each for each in paths if matches(pattern, each)]
        if path in named and all(written.get(each) == sharding or each in moments for each in named):
            return pattern, named
    return f"/{path}", [path]
