"""Check that a layout is legal by Mesh-TensorFlow's rules (Shazeer et al. 2018) and JAX's even arguments.

The first violation is a `LayoutError` in the user's names, with the arithmetic and suggestions.
"""

from collections.abc import Collection, Iterator

from workbench.core.layout import Layout, fits_state
from workbench.core.layout_text import group_text
from workbench.core.mesh import Mesh
from workbench.core.path_patterns import (
    is_line,
    match_patterns,
    matches,
    operations_at,
    selects,
    stated_trip_count,
    unfold_pattern,
    unknown_line,
)
from workbench.core.pipeline_spec import PipelineSpec, plan_input_splits
from workbench.core.program import Program
from workbench.core.sharding import Sharding, base_axis
from workbench.core.tensor import Role, Tensor
from workbench.errors import LayoutError, PipelineError, unknown_name
from workbench.plan.sharding_legality import AxisTwice, Fault, fault_error, sharding_faults
from workbench.plan.stage_axis import splits_nothing

_PADDED_ROLES = (Role.PARAMETER, Role.OPTIMIZER_STATE)


def verify_layout(program: Program, mesh: Mesh, layout: Layout, *, padded: bool = False) -> None:
    """Raise `LayoutError` for unknown names, a repeated axis, an uneven split, or an unmatched statement.

    A statement may match nothing, have the wrong rank or concern a manual axis inside its `shard_map`. `padded`:
    overrides of weights and their state may be uneven (`Runtime.pads_shards`).
    """
    for error in layout_errors(program, mesh, layout, padded=padded):
        raise error


def verify_pipeline(program: Program, mesh: Mesh, layout: Layout, pipeline: PipelineSpec | None) -> None:
    """Raise `PipelineError` if the pipeline does not fit the program, mesh and layout.

    Its axis must be in the mesh, have as many devices as there are stages, and shard no dimension. Activations and
    optimizer state must be on the devices, the model may carry no state besides parameters, and the micro-batches must
    divide the batch of a training step.
    """
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
            "Pipeline stages keep the optimizer's state on their own devices; host memory requires a step without a pipeline.",
            [
                "keep it on the devices, offload `nothing`",
                "shard it over the data-parallel devices, recipe `zero_1`",
                "remove the pipeline",
            ],
        )
    if state := next((tensor for tensor in program.arguments if tensor.role is Role.MODEL_STATE), None):
        raise PipelineError(
            f"`{program.name}` carries `{state.path}` from step to step besides its parameters; pipeline stages carry only parameters and "
            "the optimizer's state.",
            ["keep running averages as parameters, `wb.moving_average`", "pass RNG keys in the batch", "remove the pipeline"],
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
    yield from _unknown_name_errors(program, mesh, layout)
    yield from pattern_errors(program, layout)
    seen = set()
    placed_by_rules = set()  # tensors of equal dimensions without an override have the same sharding
    tensors = (*program.arguments, *program.results)
    for place, (tensor, override) in enumerate(zip(tensors, layout.overrides_of(tensors), strict=True)):
        is_result = place >= len(program.arguments)
        if override is None and (is_result or (tensor.dims, tensor.shape) in placed_by_rules):
            continue
        spec = override.dims if override else tuple(layout.rule(dim) for dim in tensor.dims)
        if override is None:
            placed_by_rules.add((tensor.dims, tensor.shape))
        key = (tensor.dims, tensor.shape, spec, tensor.role in _PADDED_ROLES)
        if key not in seen:  # report equal tensors of repeated layers once
            seen.add(key)
            may_pad = padded and override is not None and tensor.role in _PADDED_ROLES
            faults = (fault for fault in sharding_faults(tensor.shape, spec, mesh) if not may_pad or isinstance(fault, AxisTwice))
            yield from (fault_error(fault, tensor, mesh) for fault in faults)


def illegality_text(program: Program, mesh: Mesh, layout: Layout, dim: str, axes: tuple[str, ...]) -> str | None:
    """Return why dimension `dim` may not go onto `axes`, or `None`. Cheap: called for every drop target of a drag."""
    first = first_fault(program, mesh, layout, dim, axes)
    return fault_error(first[1], first[0], mesh).message if first else None


def first_fault(program: Program, mesh: Mesh, layout: Layout, dim: str, axes: tuple[str, ...]) -> tuple[Tensor, Fault] | None:
    """Return the first argument that the rules could not shard with `dim` on `axes`, and its fault."""
    trial = layout.with_rule(dim, axes)
    having = [tensor for tensor in program.arguments if dim in tensor.dims]
    for tensor, override in zip(having, layout.overrides_of(having), strict=True):
        if override is None:
            for fault in sharding_faults(tensor.shape, tuple(trial.rule(name) for name in tensor.dims), mesh):
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
    """Return the error for an unknown dimension; if names were proposed it explains how to name dimensions."""
    message, ways_out = unknown_name("dimension", dim, program.dims)
    if argument := next((tensor for tensor in program.arguments if tensor.dims and matches(dim, tensor.path)), None):
        entries = ", ".join("-" for _ in argument.dims)
        ways_out = (f"`{argument.path}` is an argument: place it with `{dim}=[{entries}]`, one entry per dimension",)
    unnamed_inputs = [program.arguments[i] for i in program.inputs if {*program.arguments[i].dims} & {*program.proposed.unconfirmed}]
    if not unnamed_inputs:
        return LayoutError(message, ways_out)
    example = f'`dims={{"{unnamed_inputs[0].path}": "{" ".join(unnamed_inputs[0].dims)}"}}`'
    return LayoutError(f"{message} Unnamed dimensions have names inferred from use.", [*ways_out, f"name them in the trace, {example}"])


def _unknown_axis_error(axis: str, mesh: Mesh) -> LayoutError:
    if (whole := base_axis(axis)) != axis and whole in mesh:
        return LayoutError(
            f"`{axis}` is a part of mesh axis `{whole}`; only propagation creates such parts, and JAX cannot name them.",
            [f"make two axes of `{whole}`, such as `{whole}_major` and `{whole}_minor`", f"use the whole axis `{whole}`"],
        )
    return LayoutError(*unknown_name("mesh axis", axis, mesh.names))


def pattern_errors(program: Program, layout: Layout) -> Iterator[LayoutError]:
    """Yield errors of overrides, constraints, groups and barriers that match nothing, or values of another rank."""
    yield from _override_errors(program, layout)
    for pattern, sharding in layout.constraints:
        yield from constraint_errors(program, pattern, sharding)
    for places in layout.groups:
        yield from group_errors(program, places)
    for place, _ in layout.barriers:
        yield from _place_errors(program, place)
    loops = [(operation.path, operation.source) for operation in program.operations if operation.kind == "while"] if layout.turns else []
    for pattern, count in layout.turns:
        if not any(stated_trip_count([(pattern, count)], *loop) for loop in loops):
            loop_names = dict.fromkeys(source or f"{path}/while".lstrip("/") for path, source in loops)
            yield LayoutError(*unknown_name("loop", pattern, loop_names))


def _override_errors(program: Program, layout: Layout) -> Iterator[LayoutError]:
    tensors = (*program.arguments, *program.results)
    next_arguments = {len(program.arguments) + i: program.arguments[argument] for i, argument in program.carried}
    patterns_of = match_patterns((pattern for pattern, _ in layout.overrides), (tensor.path for tensor in tensors))
    places: dict[str, list[int]] = {pattern: [] for pattern, _ in layout.overrides}
    for place, tensor in enumerate(tensors):
        for pattern in patterns_of[tensor.path]:
            places[pattern].append(place)
    for pattern, sharding in layout.overrides:
        matching = [tensors[place] for place in places[pattern] if place not in next_arguments]
        carried = next((next_arguments[place] for place in places[pattern] if place in next_arguments), None)
        yield from _errors_of_override(program, pattern, sharding, matching, carried)


def _errors_of_override(
    program: Program, pattern: str, sharding: Sharding, matching: list[Tensor], carried: Tensor | None
) -> Iterator[LayoutError]:
    """Yield why the tensors that match an override cannot have it; `carried` is the argument of a matching result."""
    if not matching and carried is not None:
        yield LayoutError(
            f"The result `{pattern}` becomes `{carried.path}` in the next step and has the sharding of that argument.",
            [f"override `{carried.path}`"],
        )
    elif not matching:
        yield LayoutError(*_unknown_path_text("argument", pattern, [tensor.path for tensor in program.arguments]))
    for tensor in [candidate for candidate in matching if fits_state(sharding, candidate)] or matching:
        if len(sharding.dims) != len(tensor.dims):
            yield _wrong_rank_error(f"`{tensor}`", len(tensor.dims), sharding)


def constraint_errors(program: Program, pattern: str, sharding: Sharding) -> Iterator[LayoutError]:
    """Yield why no value can be constrained so: unknown name, wrong rank, or a manual region of one of the axes."""
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
    if removed_value := next((value for value in program.removed if selects(pattern, value.path, value.source)), None):
        where = f" ({removed_value.source})" if removed_value.source else ""
        return LayoutError(f"`{pattern}` is in the function{where} but not in the step: {removed_value.why}.", list(removed_value.ways_out))
    values = (operation for operation in program.operations if operation.path and operation.shape)
    if is_line(pattern):
        return LayoutError(*unknown_line(pattern, ((value.path, value.source) for value in values)))
    return LayoutError(*_unknown_path_text("intermediate value", pattern, dict.fromkeys(value.path for value in values)))


def group_errors(program: Program, places: tuple[str, ...]) -> Iterator[LayoutError]:
    """Yield why these values cannot share a sharding: one does not exist, or shapes differ."""
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
    """Like `unknown_name`; for a table row of repeated layers it suggests the layout's pattern."""
    message, ways_out = unknown_name(kind, pattern, known)
    unfolded_pattern = unfold_pattern(pattern, known)
    return message, (f"write `{unfolded_pattern}`, which matches all of them",) if unfolded_pattern else ways_out


def _wrong_rank_error(subject: str, rank: int, sharding: Sharding) -> LayoutError:
    return LayoutError(
        f"{subject} has {rank} dimensions; {sharding} places {len(sharding.dims)}.", ["write one entry per dimension, `-` for unsharded"]
    )
