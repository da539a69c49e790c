"""May this program lie on this mesh like this? Mesh-TensorFlow's rules M3 to M7, and JAX's own demand of even arguments.

Checked before any work starts. The first rule broken is a `LayoutError` in the user's names, with the arithmetic and the ways out.
"""

from collections.abc import Iterator
from math import prod

from workbench.errors import LayoutError, unknown_name
from workbench.layout import Layout
from workbench.mesh import Mesh
from workbench.paths import matches
from workbench.program import Program
from workbench.sharding import Sharding
from workbench.tensor import Tensor


def verify_layout(program: Program, mesh: Mesh, layout: Layout) -> None:
    """Raises `LayoutError` for an unknown dimension or axis (M3), an axis twice in a tensor (M5), an uneven split (M6),
    or an override or constraint that names nothing or has the wrong rank."""
    for error in illegalities(program, mesh, layout):
        raise error


def illegalities(program: Program, mesh: Mesh, layout: Layout) -> Iterator[LayoutError]:
    """All that is wrong, worst first."""
    yield from _unknown_names(program, mesh, layout)
    yield from _pointless_patterns(program, layout)
    seen = set()
    for tensor in program.arguments:
        override = layout.override(tensor.path)
        spec = override.dims if override else tuple(layout.rule(dim) for dim in tensor.dims)
        key = (tensor.dims, tensor.shape, spec)
        if key not in seen:  # a tensor like one already judged: say it once, not once a layer
            seen.add(key)
            yield from _tensor_illegalities(tensor, spec, mesh)


def why_illegal(program: Program, mesh: Mesh, layout: Layout, dim: str, axes: tuple[str, ...]) -> str | None:
    """Why dimension `dim` may not go onto `axes` in this layout; `None` if it may. Cheap: asked of every target under the hand."""
    trial = layout.with_rule(dim, axes)
    for tensor in program.arguments:
        if dim in tensor.dims and layout.override(tensor.path) is None:
            for error in _tensor_illegalities(tensor, tuple(trial.rule(each) for each in tensor.dims), mesh):
                return error.message
    return None


def _unknown_names(program: Program, mesh: Mesh, layout: Layout) -> Iterator[LayoutError]:
    for dim, axes in layout.rules:
        if dim not in program.dims:
            yield LayoutError(*unknown_name("dimension", dim, program.dims))
        yield from (LayoutError(*unknown_name("mesh axis", axis, mesh.names)) for axis in axes if axis not in mesh)
    for _, sharding in layout.overrides + layout.constraints:
        yield from (LayoutError(*unknown_name("mesh axis", axis, mesh.names)) for axis in sharding.axes if axis not in mesh)


def _pointless_patterns(program: Program, layout: Layout) -> Iterator[LayoutError]:
    for pattern, sharding in layout.overrides:
        found = [tensor for tensor in program.arguments if matches(pattern, tensor.path)]
        if not found:
            yield LayoutError(*unknown_name("argument", pattern, (tensor.path for tensor in program.arguments)))
        for tensor in found:
            if len(sharding.dims) != len(tensor.dims):
                yield _wrong_rank(f"`{tensor}`", len(tensor.dims), sharding)
            elif None in sharding.dims:
                yield LayoutError(
                    f"The override {pattern}={sharding} leaves a dimension open.", ["`-` keeps a dimension of an argument whole"]
                )
    for pattern, sharding in layout.constraints:
        values = [each for each in program.operations if matches(pattern, each.path)]
        if not values:
            yield LayoutError(
                *unknown_name(
                    "intermediate value", pattern, dict.fromkeys(each.path for each in program.operations if each.path and each.shape)
                )
            )
        elif not any(len(each.shape) == len(sharding.dims) for each in values):
            yield _wrong_rank(f"`{pattern}`", len(values[0].shape), sharding)


def _wrong_rank(subject: str, rank: int, sharding: Sharding) -> LayoutError:
    return LayoutError(
        f"{subject} has {rank} dimensions; {sharding} places {len(sharding.dims)}.", ["write one entry a dimension, `-` for whole"]
    )


def _tensor_illegalities(tensor: Tensor, spec: tuple[tuple[str, ...] | None, ...], mesh: Mesh) -> Iterator[LayoutError]:
    owner: dict[str, str] = {}
    for dim, size, axes in zip(tensor.dims, tensor.shape, spec, strict=False):
        for axis in axes or ():
            if axis in owner:
                yield LayoutError(
                    f"`{tensor}` would have both `{owner[axis]}` and `{dim}` on mesh axis `{axis}`; "
                    "an axis splits one dimension of a tensor.",
                    [f"put `{dim}` on another axis", f"override `{tensor.path}`", f"leave `{dim}` whole"],
                )
            owner[axis] = dim
        parts = prod(mesh[axis] for axis in axes or () if axis in mesh)
        if size % parts:
            yield _uneven(tensor, dim, size, axes or (), parts, mesh)


def _uneven(tensor: Tensor, dim: str, size: int, axes: tuple[str, ...], parts: int, mesh: Mesh) -> LayoutError:
    product = f" ({' x '.join(str(mesh[axis]) for axis in axes)} = {parts})" if len(axes) > 1 else f" ({parts})"
    even = [n for n in range(2, min(size, 4 * parts) + 1) if size % n == 0]
    nearest = sorted(sorted(even, key=lambda n: abs(n - parts))[:2])
    others = [name for name, width in mesh.axes if name not in axes and width > 1 and size % width == 0]
    rounded = -(-size // parts) * parts
    return LayoutError(
        f"`{tensor}`: the layout puts `{dim}` ({size}) on mesh axis `{'+'.join(axes)}`{product}, and {size} % {parts} = {size % parts}. "
        "JAX splits an argument into equal parts only.",
        [
            *([f"make the parts {' or '.join(map(str, nearest))}"] if nearest else []),
            *(f"put `{dim}` on `{name}` ({mesh[name]} divides {size})" for name in others[:1]),
            f"pad `{dim}` to {rounded}",
            f"leave `{dim}` whole",
        ],
    )
