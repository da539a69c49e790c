"""Whether a layout is legal: Mesh-TensorFlow's layout rules (Shazeer et al. 2018), and JAX's own demand for evenly divided arguments.

Checked before any work starts. The first rule broken is a `LayoutError` in the user's names, with the arithmetic and the ways out.
"""

from collections.abc import Collection, Iterator

from workbench.core.layout import Layout, fits_state
from workbench.core.layout_text import group_text
from workbench.core.mesh import Mesh
from workbench.core.path_patterns import is_line, matches, operations_at, selects, stated_turns, unfold_pattern, unknown_line
from workbench.core.pipeline_spec import PipelineSpec, plan_input_splits
from workbench.core.program import Program
from workbench.core.sharding import Sharding, base_axis
from workbench.core.tensor import Role, Tensor
from workbench.errors import LayoutError, PipelineError, unknown_name
from workbench.plan.sharding_legality import AxisTwice, Fault, fault_error, sharding_faults
from workbench.plan.stage_axis import splits_nothing

_PADDED_ROLES = (Role.PARAMETER, Role.OPTIMIZER_STATE)


def verify_layout(program: Program, mesh: Mesh, layout: Layout, *, padded: bool = False) -> None:
    """Raises `LayoutError` for an unknown dimension or axis, an axis used twice in a tensor, an uneven split,
    or a statement that names nothing, has the wrong rank or is about a manual axis inside its `shard_map`.

    `padded`: what an override says of a weight or of its state may be uneven (`Runtime.pads_shards`).
    """
    for error in layout_errors(program, mesh, layout, padded=padded):
        raise error


def verify_pipeline(program: Program, mesh: Mesh, layout: Layout, pipeline: PipelineSpec | None) -> None:
    """Raises `PipelineError` if the pipeline's axis is not one of the mesh, has not as many devices as there are stages, or also splits a
    dimension; if activations or the optimiser's state are in the host's memory; if the model carries state besides its parameters; and if
    the micro-batches do not divide the batch of a training step."""
    if pipeline is None:
        return
    if program.remat.uses_host:
        raise PipelineError(
            "Pipeline stages keep activations on their own devices until the backward pass, but remat "
            f"`{program.remat}` keeps them in host memory, which requires a step without a pipeline.",
            [
                "keep them on the devices, remat `dots_no_batch`",
                "recompute the forward pass in each stage, `remat:always` of the pipeline",
                "remove the pipeline",
            ],
        )
    if program.offload.optimizer_state:
        raise PipelineError(
            "Pipeline stages keep the optimiser's state on their own devices; host memory requires a step without a pipeline.",
            [
                "keep it on the devices, offload `nothing`",
                "shard it over the data-parallel devices, recipe `zero_1`",
                "remove the pipeline",
            ],
        )
    if state := next((each for each in program.arguments if each.role is Role.MODEL_STATE), None):
        raise PipelineError(
            f"`{program.name}` carries `{state.path}` from step to step besides its parameters; pipeline stages carry only parameters and "
            "the optimiser's state.",
            [
                "keep running averages as parameters, `wb.moving_average`",
                "pass RNG keys in the batch",
                "remove the pipeline",
            ],
        )
    _verify_axis(mesh, layout, pipeline)
    if program.step.training is not None:
        plan_input_splits(program, pipeline.micro_batches)


def _verify_axis(mesh: Mesh, layout: Layout, pipeline: PipelineSpec) -> None:
    axis, stages = pipeline.axis, pipeline.stages
    if axis not in mesh:
        raise PipelineError(
            f"The {stages} stages of the pipeline are placed along mesh axis `{axis}`, and the mesh is `{mesh}`.",
            [f"make it `{f'{axis}:{stages} {mesh}'.strip()}`", "name an existing axis, axis:NAME"],
        )
    if mesh[axis] != stages:
        raise PipelineError(
            f"The pipeline has {stages} stages, and mesh axis `{axis}` {mesh[axis]} groups of devices.",
            [f"make `{axis}` {stages}", f"make `stages` {mesh[axis]}"],
        )
    if not splits_nothing(axis, layout):
        raise PipelineError(
            f"Mesh axis `{axis}` holds the pipeline stages, but the layout also shards a dimension over it.",
            [f"remove `{axis}` from the layout", "give the pipeline a separate axis"],
        )


def layout_errors(program: Program, mesh: Mesh, layout: Layout, *, padded: bool = False) -> Iterator[LayoutError]:
    """All errors of a layout, worst first."""
    yield from _unknown_name_errors(program, mesh, layout)
    yield from pattern_errors(program, layout)
    seen = set()
    placed_by_rules = set()  # without an override, tensors of the same dimensions have the same sharding
    results = [each for each in program.results if layout.overrides and layout.override_of(each)]
    for tensor in (*program.arguments, *results):
        override = layout.override_of(tensor) if layout.overrides else None
        if override is None and (tensor.dims, tensor.shape) in placed_by_rules:
            continue
        spec = override.dims if override else tuple(layout.rule(dim) for dim in tensor.dims)
        if override is None:
            placed_by_rules.add((tensor.dims, tensor.shape))
        key = (tensor.dims, tensor.shape, spec, tensor.role in _PADDED_ROLES)
        if key not in seen:  # a tensor like one already checked: report it once, not once per layer
            seen.add(key)
            may_pad = padded and override is not None and tensor.role in _PADDED_ROLES
            faults = (each for each in sharding_faults(tensor.shape, spec, mesh) if not may_pad or isinstance(each, AxisTwice))
            yield from (fault_error(fault, tensor, mesh) for fault in faults)


def illegality_text(program: Program, mesh: Mesh, layout: Layout, dim: str, axes: tuple[str, ...]) -> str | None:
    """Why dimension `dim` may not go onto `axes` in this layout; `None` if it may. Cheap: called for every drop target of a drag."""
    found = first_fault(program, mesh, layout, dim, axes)
    return fault_error(found[1], found[0], mesh).message if found else None


def first_fault(program: Program, mesh: Mesh, layout: Layout, dim: str, axes: tuple[str, ...]) -> tuple[Tensor, Fault] | None:
    """The first argument that could not be sharded by the rules if `dim` were on `axes`, and its fault."""
    trial = layout.with_rule(dim, axes)
    for tensor in program.arguments:
        if dim in tensor.dims and layout.override_of(tensor) is None:
            for fault in sharding_faults(tensor.shape, tuple(trial.rule(each) for each in tensor.dims), mesh):
                return tensor, fault
    return None


def _unknown_name_errors(program: Program, mesh: Mesh, layout: Layout) -> Iterator[LayoutError]:
    for dim, axes in layout.rules:
        if dim not in program.dims:
            yield unknown_dim_error(program, dim)
        yield from (_unknown_axis_error(axis, mesh) for axis in axes if axis not in mesh)
    for _, sharding in layout.overrides + layout.constraints:
        yield from (_unknown_axis_error(axis, mesh) for axis in sharding.named_axes if axis not in mesh)


def unknown_dim_error(program: Program, dim: str) -> LayoutError:
    """The error of a dimension that the program has not; where names were proposed it says how to give others."""
    message, ways_out = unknown_name("dimension", dim, program.dims)
    if argument := next((each for each in program.arguments if each.dims and matches(dim, each.path)), None):
        entries = ", ".join("-" for _ in argument.dims)
        ways_out = (f"`{argument.path}` is an argument: place it with `{dim}=[{entries}]`, one entry per dimension",)
    named = [program.arguments[i] for i in program.inputs if {*program.arguments[i].dims} & {*program.proposed.unconfirmed}]
    if not named:
        return LayoutError(message, ways_out)
    example = f'`dims={{"{named[0].path}": "{" ".join(named[0].dims)}"}}`'
    return LayoutError(f"{message} Unnamed dimensions have names inferred from use.", [*ways_out, f"name them in the trace, {example}"])


def _unknown_axis_error(axis: str, mesh: Mesh) -> LayoutError:
    if (whole := base_axis(axis)) != axis and whole in mesh:
        return LayoutError(
            f"`{axis}` is a part of mesh axis `{whole}`; only propagation creates such parts, and JAX cannot name them.",
            [f"make two axes of `{whole}`, such as `{whole}_major` and `{whole}_minor`", f"use the whole axis `{whole}`"],
        )
    return LayoutError(*unknown_name("mesh axis", axis, mesh.names))


def pattern_errors(program: Program, layout: Layout) -> Iterator[LayoutError]:
    """The errors of overrides, constraints, groups and barriers that name nothing, or something of another rank."""
    for pattern, sharding in layout.overrides:
        yield from _override_errors(program, pattern, sharding)
    for pattern, sharding in layout.constraints:
        yield from constraint_errors(program, pattern, sharding)
    for places in layout.groups:
        yield from group_errors(program, places)
    for place, _ in layout.barriers:
        yield from _place_errors(program, place)
    loops = [(each.path, each.source) for each in program.operations if each.kind == "while"] if layout.turns else []
    for pattern, count in layout.turns:
        if not any(stated_turns([(pattern, count)], *loop) for loop in loops):
            named = dict.fromkeys(source or f"{path}/while".lstrip("/") for path, source in loops)
            yield LayoutError(*unknown_name("loop", pattern, named))


def _override_errors(program: Program, pattern: str, sharding: Sharding) -> Iterator[LayoutError]:
    next_arguments = {i: program.arguments[argument] for i, argument in program.carried}
    found = [tensor for tensor in program.arguments if matches(pattern, tensor.path)]
    results = {i: tensor for i, tensor in enumerate(program.results) if matches(pattern, tensor.path)}
    found += [tensor for i, tensor in results.items() if i not in next_arguments]
    if not found and results:
        carried = next_arguments[next(iter(results))]
        yield LayoutError(
            f"The result `{pattern}` becomes `{carried.path}` in the next step and has the sharding of that argument.",
            [f"override `{carried.path}`"],
        )
    elif not found:
        yield LayoutError(*_unknown_path_text("argument", pattern, [tensor.path for tensor in program.arguments]))
    for tensor in [each for each in found if fits_state(sharding, each)] or found:
        if len(sharding.dims) != len(tensor.dims):
            yield _wrong_rank_error(f"`{tensor}`", len(tensor.dims), sharding)


def constraint_errors(program: Program, pattern: str, sharding: Sharding) -> Iterator[LayoutError]:
    """Why no value can be constrained so: none has this name, none this rank, or it is in a manual region of one of the axes."""
    ids = operations_at(program, pattern)
    if not ids:
        yield _unknown_value_error(program, pattern)
        return
    ranked = operations_at(program, pattern, len(sharding.dims))
    if not ranked:
        yield _wrong_rank_error(f"`{pattern}`", len(program.operations[ids[0]].shape), sharding)
    for op in (program.operations[i] for i in ranked):
        if manual := [axis for axis in sharding.named_axes if axis in op.manual]:
            names = " and ".join(f"`{axis}`" for axis in manual)
            yield LayoutError(
                f"`{op.path}` ({op.source or 'no source line'}) is computed in a shard_map that is manual over {names}: the function "
                "itself controls these axes, so a constraint cannot.",
                [f"remove {names} from @{pattern}={sharding}", "change the in_specs and out_specs of the shard_map"],
            )
            return


def _unknown_value_error(program: Program, pattern: str) -> LayoutError:
    """The error for a value that does not exist, or that the function has and the step does not compute."""
    if removed_value := next((each for each in program.removed if selects(pattern, each.path, each.source)), None):
        where = f" ({removed_value.source})" if removed_value.source else ""
        return LayoutError(f"`{pattern}` is in the function{where} but not in the step: {removed_value.why}.", list(removed_value.ways_out))
    known = (each for each in program.operations if each.path and each.shape)
    if is_line(pattern):
        return LayoutError(*unknown_line(pattern, ((each.path, each.source) for each in known)))
    return LayoutError(*_unknown_path_text("intermediate value", pattern, dict.fromkeys(each.path for each in known)))


def group_errors(program: Program, places: tuple[str, ...]) -> Iterator[LayoutError]:
    """Why these values cannot have one sharding: one does not exist, or two differ in shape."""
    missing = [error for place in places for error in _place_errors(program, place)]
    yield from missing[:1]
    if missing:
        return
    shapes = {shape: place for place in reversed(places) for shape in _shapes_at(program, place)}
    if len(shapes) > 1:
        listed = " and ".join(f"`{place}` of shape {list(shape)}" for shape, place in list(shapes.items())[-2:][::-1])
        yield LayoutError(
            f"`{group_text(places)}` groups {listed}; a group requires equal shapes.",
            ["group values of equal shape", "override or constrain each separately"],
        )


def _shapes_at(program: Program, place: str) -> list[tuple[int, ...]]:
    if place.startswith("@"):
        return [program.operations[i].shape for i in operations_at(program, place[1:])]
    return [tensor.shape for tensor in program.arguments if matches(place, tensor.path)]


def _place_errors(program: Program, place: str) -> Iterator[LayoutError]:
    if _shapes_at(program, place):
        return
    if place.startswith("@"):
        yield _unknown_value_error(program, place[1:])
        return
    message, ways_out = _unknown_path_text("argument", place, [tensor.path for tensor in program.arguments])
    is_value = bool(operations_at(program, place))
    yield LayoutError(message, [f"write `@{place}` for the intermediate value"] if is_value else ways_out)


def _unknown_path_text(kind: str, pattern: str, known: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """As `unknown_name`; for a row of a table that stands for repeated layers, how a layout names them."""
    message, ways_out = unknown_name(kind, pattern, known)
    unfolded_pattern = unfold_pattern(pattern, known)
    return message, (f"write `{unfolded_pattern}`, which matches all of them",) if unfolded_pattern else ways_out


def _wrong_rank_error(subject: str, rank: int, sharding: Sharding) -> LayoutError:
    return LayoutError(
        f"{subject} has {rank} dimensions; {sharding} places {len(sharding.dims)}.", ["write one entry per dimension, `-` for unsharded"]
    )
