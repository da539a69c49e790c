"""Search spaces: the alternatives of a plan, as far as its program allows them."""

from collections import Counter
from collections.abc import Collection, Sequence

from workbench.core.layout import Layout
from workbench.core.program import Program
from workbench.core.schedules import schedule_named
from workbench.core.sharding import base_axis
from workbench.core.tensor import Role
from workbench.errors import SearchError, WorkbenchError, unknown_name, wrong_type
from workbench.hardware.catalogue import read_hardware
from workbench.hardware.hardware import Hardware
from workbench.hardware.resize_hardware import resize_hardware
from workbench.plan.plan import Plan
from workbench.recipes.choose_dims import batch_dim
from workbench.search.layout_choices import PER_STAGE, LayoutChoice, RecipeMove, layout_error, list_layout_choices, usual_choices
from workbench.search.plan_candidate import NO_ZERO, RECOMPUTING
from workbench.search.search_space import ZEROS, SearchSpace
from workbench.search.traced_programs import OFFLOADS, REMATS, USUAL_REMATS, WIDE_REMATS, trace_programs
from workbench.search.uneven_boundaries import BOUNDARIES, BY_TIME
from workbench.tracing.stage_partition.trace_network import network_of

SCHEDULES = ("1f1b", "interleaved", "zero_bubble", "zb_v", "v_half")
WIDE_SCHEDULES = ("gpipe", *SCHEDULES, "eager_1f1b", "breadth_first", "dualpipe_v", "v_min")
AXES = ("stage", "data", "model")
WIDE_AXES = ("stage", "data", "context", "expert", "model")


def make_space(
    plan: Plan,
    *,
    devices: int | Sequence[int] | None = None,
    hardware: Hardware | str | None = None,
    keep: bool = False,
    axes: Sequence[str] | None = None,
    layouts: Sequence[str] | str | None = None,
    zeros: Sequence[str] = ZEROS,
    remats: Sequence[str] | None = None,
    schedules: Sequence[str] | None = None,
    axis_assignments: bool | None = None,
    boundaries: Sequence[str] | None = None,
    offloads: Sequence[str] | None = None,
    precisions: Sequence[str] = (),
    wide: bool = False,
    most_examples: int = 16,
) -> SearchSpace:
    """Make the space of alternative plans for a plan's program.

    - `devices`: number of devices, or several to choose from; default: the plan's. `hardware`: their kind; default: the
      plan's;
    - `keep`: whether to keep the statements of the plan's layout;
    - `axes`: `stage`, `data`, `model`, and `context` or `expert` if the program supports them;
    - `layouts`: names of `layout_choices`, or `all` that apply; default: the recipes, if one of them shards more than
      examples;
    - `zeros`, `remats`, `schedules`: the choices by name;
    - `axis_assignments`: whether mesh axes may also use other links than the default, in every order;
    - `boundaries`: rules of `search.uneven_boundaries`; default: `time`;
    - `offloads`: host memory contents, `nothing` and `optimizer_state`; default: the program's;
    - `precisions`: choices that `Precision` parses; default: the program's own, also with `wide`, because precision
      changes results;
    - `wide`: whether the defaults above cover everything: also the axes `context` and `expert`, `WIDE_REMATS` and remat
      on some of the stages, `WIDE_SCHEDULES`, other links, all `BOUNDARIES` and `OFFLOADS`;
    - `most_examples`: upper limit on the examples of a micro-batch on one replica.

    Raises `SearchError` for a choice that does not exist or leaves an empty space, `HardwareError` for device counts
    that are not sold, `PrecisionError` and others for choices that the program does not allow.
    """
    axes, schedules = axes or (WIDE_AXES if wide else AXES), schedules or (WIDE_SCHEDULES if wide else SCHEDULES)
    boundaries = boundaries or (BOUNDARIES if wide else (BY_TIME,))
    _verify_names("ZeRO stage", zeros, ZEROS)
    _verify_names("remat", remats, (*REMATS, *RECOMPUTING))
    _verify_names("rule for boundaries", boundaries, BOUNDARIES)
    _verify_names("offload", offloads, OFFLOADS)
    for name in schedules:
        schedule_named(name)
    targets = _list_hardware(plan, devices, hardware)
    start = plan.updated(pipeline=None, axis_assignment=None, layout=plan.layout if keep else Layout(""))
    kept_axes = _axes_of_statements(start) if keep else ()
    for name in axes:
        if name not in (*WIDE_AXES, *kept_axes):
            raise SearchError(*unknown_name("mesh axis", name, (*WIDE_AXES, *kept_axes)))
    names = (*(axis for axis in axes if axis not in kept_axes or axis in AXES), *(axis for axis in kept_axes if axis not in axes))
    choices = list_layout_choices(start, names, with_costs=all(target for target, _ in targets))
    used = {*AXES, *kept_axes, *(axis for choice in choices for axis in choice.axes)}
    names = tuple(axis for axis in names if axis in used)
    usual_remats, offloads = (WIDE_REMATS, offloads) if wide else (USUAL_REMATS, offloads or ())
    programs = trace_programs(plan.program, remats, precisions, offloads, usual_remats)
    partly = tuple(name for name, share in RECOMPUTING.items() if share < 1 and (wide if remats is None else name in remats))
    batch, blocks, layers = _divide(programs[0][1])
    is_staged = blocks > 1 and "stage" in axes and "stage" not in kept_axes
    return SearchSpace(
        start,
        tuple((target.name if target else "", size) for target, size in targets),
        tuple(axis for axis in names if (axis != "stage" or batch) and (axis != "data" or _has_examples(start))),
        _choose_layouts(start, names, choices, layouts),
        programs,
        tuple(zero for zero in zeros if zero == NO_ZERO or any(tensor.role is Role.OPTIMIZER_STATE for tensor in plan.program.arguments)),
        (*dict.fromkeys(traced.remat for traced, _ in programs), *(partly if is_staged else ())),
        tuple(schedules) if is_staged else (),
        batch,
        blocks,
        layers,
        most_examples,
        sizes=tuple((axis, (plan.mesh[axis],)) for axis in kept_axes if axis not in AXES),
        kept_axes=kept_axes,
        with_axis_assignments=wide if axis_assignments is None else axis_assignments,
        boundaries=tuple(boundaries) if is_staged else (BY_TIME,),
        precisions=tuple(dict.fromkeys(traced.precision for traced, _ in programs)),
        offloads=tuple(dict.fromkeys(traced.offload for traced, _ in programs)),
    )


def _list_hardware(plan: Plan, devices: int | Sequence[int] | None, hardware: Hardware | str | None) -> list[tuple[Hardware | None, int]]:
    counts = (devices,) if isinstance(devices, int) else tuple(devices or ())
    kind = hardware or plan.hardware
    if any(not isinstance(count, int) or isinstance(count, bool) for count in counts):
        raise SearchError(wrong_type("devices", devices, "a whole number or several"), ["write 256", "write (64, 128, 256)"])
    if any(count < 1 for count in counts) or (devices is not None and not counts):
        raise SearchError(f"{min(counts, default=0):,} devices cannot hold a plan.", ["search with 1 device or more"])
    if kind is None:
        return [(None, count) for count in counts or (plan.mesh.size,)]
    if not counts and isinstance(kind, Hardware):
        return [(kind, kind.size)]
    return [(resize_hardware(kind, count), count) for count in counts] if counts else _named(kind)


def _named(kind: Hardware | str) -> list[tuple[Hardware | None, int]]:
    machine = read_hardware(kind)
    return [(machine, machine.size)] if machine else []


def _divide(program: Program) -> tuple[int, int, int]:
    """Examples of a step, blocks, and size of the largest group of identical ones; 0, 1, 1 without any."""
    dim = batch_dim(program)
    inputs = [program.arguments[i] for i in program.inputs]
    sizes = {tensor.shape[tensor.dims.index(dim)] for tensor in inputs if dim in tensor.dims}
    if program.step.training is None or len(sizes) != 1:
        return 0, 1, 1
    try:
        network = network_of(program)
    except WorkbenchError:
        return 0, 1, 1
    counts = Counter((block.flops, block.parameter_bytes) for block in network.blocks)
    return sizes.pop(), len(network.paths), max(counts.values())


def _has_examples(plan: Plan) -> bool:
    try:
        RecipeMove("data_parallel", ("data",)).apply(plan.updated(mesh="data:1", layout="", hardware=None))
    except WorkbenchError as error:
        return "one device" in error.message
    return True


def _axes_of_statements(plan: Plan) -> tuple[str, ...]:
    shardings = [sharding for _, sharding in (*plan.layout.overrides, *plan.layout.constraints)]
    used = {base_axis(axis) for _, axes in plan.layout.rules for axis in axes}
    used |= {base_axis(axis) for sharding_ in shardings for axis in sharding_.axes}
    return tuple(axis for axis in plan.mesh.names if axis in used)


def _verify_names(what: str, names: Sequence[str] | None, known: Collection[str]) -> None:
    for name in names or ():
        if name not in known:
            raise SearchError(*unknown_name(what, name, tuple(known)))


def _choose_layouts(
    start: Plan, axes: Sequence[str], found: Sequence[LayoutChoice], layouts: Sequence[str] | str | None
) -> tuple[LayoutChoice, ...]:
    if layouts is None:
        return usual_choices(found)
    available = [choice.name for choice in found]
    names = available if layouts == "all" else [layouts] if isinstance(layouts, str) else list(layouts)
    for name in names:
        if name == PER_STAGE and name not in available:
            raise SearchError(
                "Per-stage layouts need hardware, to price them, and unrolled layers: "
                "parameters stacked over layers, in a scan, have one sharding for all stages.",
                ["unroll the layers: `scan=False` for models of the zoo", "name hardware", "use another layout"],
            )
        if name not in available:
            if reason := layout_error(start, axes, name):
                raise SearchError(reason, [f"choose from {', '.join(f'`{layout}`' for layout in available)}"])
            raise SearchError(*unknown_name("layout", name, available))
    return tuple(choice for choice in found if choice.name in names)
