"""Chooses the mesh axis of a recipe: the one given, or one whose name implies the purpose."""

from collections.abc import Iterable

from workbench.core.mesh import Mesh
from workbench.errors import MeshError, RecipeError, unknown_name
from workbench.plan.plan import Plan
from workbench.recipes.naming_conventions import AXES, strip_affixes
from workbench.units import divisors


def choose_axis(plan: Plan, purpose: str, title: str, given: str | None = None) -> str:
    """The axis `given`, or one for the purpose (a key of `AXES`): by name, else the only axis whose name implies none.

    Raises `MeshError` for an unknown axis, `RecipeError` if none can be chosen, or it has size 1 or carries pipeline
    stages.
    """
    mesh = plan.mesh
    axis_name = given or _find_by_name(mesh, purpose) or _find_unnamed(mesh)
    if axis_name is None:
        names = ", ".join(f"`{name}`" for name in AXES[purpose][:3])
        have = f"the mesh has {' '.join(f'`{name}`' for name in mesh.names)}" if mesh.names else "the mesh has no axes"
        used = {axis for _, axes in plan.layout.rules for axis in axes}
        free = [f"choose one, `{name}`" for name, size in mesh.axes if size > 1 and name not in used][:1]
        raise RecipeError(f"{title} needs a mesh axis, named {names}; {have}.", [f"add an axis `{AXES[purpose][0]}`", *free])
    if axis_name not in mesh:
        raise MeshError(*unknown_name("mesh axis", axis_name, mesh.names))
    if mesh[axis_name] == 1:
        raise RecipeError(f"{title} over `{axis_name}` has no effect: the axis has one device.", [f"make `{axis_name}` 2 or more"])
    if plan.pipeline and axis_name == plan.pipeline.axis:
        raise RecipeError(
            f"{title} cannot use `{axis_name}`: it carries the stages of the pipeline.", ["choose another axis", "remove the pipeline"]
        )
    return axis_name


def _find_by_name(mesh: Mesh, purpose: str) -> str | None:
    """The axis with the most specific name; axes with more than one device first."""
    candidates = [
        (mesh[axis] == 1, AXES[purpose].index(strip_affixes(axis)), axis) for axis in mesh.names if strip_affixes(axis) in AXES[purpose]
    ]
    return min(candidates)[2] if candidates else None


def _find_unnamed(mesh: Mesh) -> str | None:
    known_names = {name for names in AXES.values() for name in names}
    free = [axis for axis, size in mesh.axes if strip_affixes(axis) not in known_names and size > 1]
    return free[0] if len(free) == 1 else None


def verify_unused(plan: Plan, axis: str, dims: Iterable[str], title: str) -> None:
    """Raise `RecipeError` if the axis shards other dimensions: an axis shards one dimension of a tensor."""
    allowed = tuple(dims)
    for dim, axes in plan.layout.rules:
        if axis in axes and dim not in allowed:
            raise RecipeError(
                f"{title} would put `{allowed[0]}` on mesh axis `{axis}`, which already shards `{dim}`; "
                "an axis shards one dimension of a tensor.",
                [f"remove `{dim}` from `{axis}`", "choose another axis", "add an axis to the mesh"],
            )


def verify_divides(plan: Plan, dim: str, axes: tuple[str, ...], title: str) -> None:
    """Raise `RecipeError` with the arithmetic if the axes do not divide every size of the dimension."""
    if problem := find_remainder(plan, dim, axes):
        size, parts = problem
        even = [str(n) for n in reversed(divisors(size)) if 1 < n <= 2 * parts][:2]
        raise RecipeError(
            f"{title} would put `{dim}` ({size}) on `{'+'.join(axes)}` ({parts}), and {size} % {parts} = {size % parts}.",
            [
                *([f"make the parts {' or '.join(even)}"] if even else []),
                f"make `{dim}` {-(-size // parts) * parts}",
                "choose another axis",
            ],
        )


def find_remainder(plan: Plan, dim: str, axes: tuple[str, ...]) -> tuple[int, int] | None:
    """A size of the dimension that the axes do not divide, with the number of shards; `None` if they divide all."""
    parts = 1
    for axis in axes:
        parts *= plan.mesh[axis]
    return next(((size, parts) for size in plan.program.dims.get(dim, ()) if size % parts), None)
