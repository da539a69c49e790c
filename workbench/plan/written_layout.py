"""The layout `as written`: the traced program's own argument shardings, as readable overrides."""

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
    """Return the given layout, or the program's own if requested, or if none was given and it fits the mesh."""
    if isinstance(given, Layout):
        return given
    if given is None:
        used = program.step.written.axes
        return written_layout(program, mesh) if used and all(axis in mesh for axis in used) else Layout("")
    says_so = isinstance(given, str) and given.strip().lower() == AS_WRITTEN
    return written_layout(program, mesh) if says_so else Layout(given)


def written_layout(program: Program, mesh: Mesh) -> Layout:
    """Return overrides for the arguments that the program shards itself; moments follow their parameters.

    The mesh may have other sizes. Raises `LayoutError` if an axis is missing or the program states no shardings.
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
    moments = {argument.path for argument in program.arguments if argument.role is Role.OPTIMIZER_STATE} - written.keys()
    by_name = defaultdict[str, list[str]](list)
    for tensor in program.arguments:
        by_name[tensor.path.rpartition("/")[2]].append(tensor.path)
    done: set[str] = set()
    for path, sharding in written.items():
        if path not in done:
            pattern, matched = _pattern(path, sharding, written, moments, by_name)
            done.update(matched)
            yield pattern, sharding


def _pattern(
    path: str, sharding: Sharding, written: Mapping[str, Sharding], moments: set[str], by_name: Mapping[str, list[str]]
) -> tuple[str, list[str]]:
    """Return the widest pattern that matches only arguments of this sharding, with its matches."""
    tail = path.partition("/")[2] or path
    for pattern in (template(tail), template(path), tail):
        last = pattern.rpartition("/")[2]
        paths = by_name.get(last, ()) if "*" not in last else [candidate for paths in by_name.values() for candidate in paths]
        matched = [candidate for candidate in paths if matches(pattern, candidate)]
        if path in matched and all(written.get(candidate) == sharding or candidate in moments for candidate in matched):
            return pattern, matched
    return f"/{path}", [path]
