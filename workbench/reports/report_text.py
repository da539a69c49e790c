"""Format the sections of a report as text."""

from collections.abc import Callable, Iterable, Sequence

from workbench.core.path_patterns import template
from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.core.text_tables import axes_text, dims_text, group_items, shape_text, table_text, tail_text, wrap_text
from workbench.hardware.hardware import Hardware
from workbench.hardware.hardware_text import axis_assignment_text
from workbench.plan.plan import Plan
from workbench.reports.collective import Collective
from workbench.reports.device_memory import FitVerdict, Memory
from workbench.reports.diagnostic import Diagnostic, Duplication
from workbench.reports.figure_ranges import Range
from workbench.reports.partitioned import Partitioned
from workbench.reports.placement import Placement
from workbench.reports.step_time import StepTime
from workbench.units import format_bytes, format_dollars, format_range, format_seconds, price_text

LARGEST = 12  # collectives listed individually
_MOST_PATHS = 8  # of carried arguments


def head_text(plan: Plan, stage: int | None) -> str:
    mesh = plan.mesh
    title = plan.name if plan.name == plan.program.name else f"{plan.name} ({plan.program.name})"
    title += "" if stage is None else f", stage {stage} of {plan.pipeline},"
    where = f"{mesh} ({mesh.size:,} device{'s' * (mesh.size != 1)})" if mesh.axes else mesh.description
    layout = "; ".join(filter(None, (str(plan.layout) or "everything replicated", plan.program.traced_with)))
    return wrap_text(f"{title} on {where}, {layout}")


def sent_figure(collectives: Iterable[Collective], found: Range | None, of_stage: str) -> tuple[str, str, str]:
    """Return the figure of bytes sent per device, by mesh axes; of a pipeline within the stage that sends most."""
    sent: dict[tuple[str, ...], int] = {}
    for collective in collectives:
        sent[collective.axes] = sent.get(collective.axes, 0) + collective.total_sent
    parts = " · ".join(f"{axes_text(axes)} {format_bytes(n)}" for axes, n in sent.items())
    return (
        "sent per device and step",
        _figure_with_range(sum(sent.values()), found, format_bytes),
        ": ".join(filter(None, (of_stage, parts))),
    )


def tier_source_text(partitioned: Partitioned | None) -> str:
    if partitioned is None:
        return "planned by Shardy"
    return f"as {partitioned.compiler} {'partitions' if partitioned.scheduled is None else 'schedules'} it"


def _figure_with_range(value: float, found: Range | None, show: Callable[[float], str]) -> str:
    return show(value) if found is None else f"{show(value)} ({format_range(found.low, found.high, show)})"


def memory_figures(memory: Memory, found: Range | None, of_stage: str = "") -> Iterable[tuple[str, str, str]]:
    roles = [f"{role} {format_bytes(count)}" for role, count in memory.by_role.items() if count]
    yield "memory per device", _figure_with_range(memory.peak, found, format_bytes), of_stage + " · ".join(roles)
    if memory.reserved:
        yield "reserved", format_bytes(memory.reserved), "reserved then by the runtime's allocator"
    if memory.capacity:
        share = memory.peak / memory.capacity
        yield "of a device's", format_bytes(memory.capacity), f"{share:.0%}: {_fit_text(memory)}"


def _fit_text(memory: Memory) -> str:
    if memory.verdict is FitVerdict.TOO_MUCH:
        return "too much"
    if memory.margin and memory.verdict is FitVerdict.CLOSE:
        return f"close: the peak may be {memory.margin:.0%} more or less"
    return "fits if the allocator releases its other memory" if memory.reserved > memory.capacity else "fits"


def time_figures(time: StepTime, found: Range | None) -> Iterable[tuple[str, str, str]]:
    parts = {
        "compute-bound kernels": time.arithmetic,
        "memory-bound kernels": time.memory,
        "exposed communication": time.exposed,
        "starting kernels": time.launch,
        **({"waiting for the host": time.host} if time.host_counts else {}),
        **({"waiting for other stages": time.idle} if time.idle else {}),
    }
    details = " · ".join(f"{name} {format_seconds(seconds)}" for name, seconds in parts.items())
    yield "step time, predicted", _figure_with_range(time.total, found, format_seconds), f"{details}, {time.place}"
    if time.communication:
        yield "communication hidden", format_seconds(time.hidden), f"overlapped, of {format_seconds(time.communication)} in all"
    if time.mfu:
        yield "model FLOPs utilisation", f"{time.mfu:.1%}", f"hardware FLOPs utilisation {time.hfu:.1%}"


def hardware_figures(plan: Plan, hardware: Hardware, seconds: float | None) -> Iterable[tuple[str, str, str]]:
    if seconds is not None:
        yield from _price_figures(hardware, seconds)
    if routes := axis_assignment_text(plan.mesh, hardware, plan.axis_assignment):
        yield "axes on links", "", routes
    if (idle := hardware.size - plan.mesh.size) > 0:
        yield "devices used", f"{plan.mesh.size:,} of {hardware.size:,}", f"the other {idle:,} of {hardware} are idle"


def _price_figures(hardware: Hardware, seconds: float) -> Iterable[tuple[str, str, str]]:
    """Yield the price of a step if the chip has a price; unused devices are paid for, too."""
    if (hourly := hardware.hourly_price) is not None:
        step = hourly * seconds / 3600
        rate = f"{format_dollars(hourly)} per hour at {price_text(hardware.chip.price or 0)} a chip"
        yield "price of 1,000 steps", format_dollars(1000 * step), f"{format_dollars(step)} a step; {rate}"


def duplication_text(duplication: float, causes: Duplication | None) -> str:
    if causes is None:
        return "no product is computed twice"
    return f"each product is computed {duplication:.2f} times over all devices, {causes}"


def arguments_text(placements: Sequence[Placement]) -> str:
    """Format one row per group of equally sharded layers, and one for optimizer state sharded like its parameters."""
    shown, followers = _split_followers(placements)
    rows = []
    for group in group_items(shown, lambda each: (template(each.tensor.path), each.tensor.shape, each.tensor.dims, each.sharding)):
        tensor, first = group[0].tensor, group[0]
        rows.append(
            (
                tail_text(template(tensor.path) if len(group) > 1 else tensor.path) + f" ×{len(group)}" * (len(group) > 1),
                tensor.dtype,
                dims_text(tensor.dims, tensor.shape),
                str(first.sharding),
                shape_text(first.local_shape),
                format_bytes(sum(each.local_bytes for each in group)),
            )
        )
    if followers:
        count = f"{len(followers)} more in optimizer state"
        rows.append((count, "", "as their parameters", "", "", format_bytes(sum(each.local_bytes for each in followers))))
    return table_text(["path", "type", "dimensions~", "on", "per device", "bytes>"], rows)


def _split_followers(placements: Sequence[Placement]) -> tuple[list[Placement], list[Placement]]:
    """Split off optimizer state with shape, sharding and path tail of a parameter (Adam's moments), which needs no row."""
    leaders = {
        (each.tensor.path.partition("/")[2], each.tensor.shape, each.sharding) for each in placements if each.tensor.role is Role.PARAMETER
    }

    def follows(each: Placement) -> bool:
        words = each.tensor.path.split("/")
        tails = ("/".join(words[i:]) for i in range(1, len(words)))
        return each.tensor.role is Role.OPTIMIZER_STATE and any((tail, each.tensor.shape, each.sharding) in leaders for tail in tails)

    followers = [each for each in placements if follows(each)]
    return [each for each in placements if not follows(each)], followers


def collectives_text(collectives: Sequence[Collective], partitioned: Partitioned | None) -> str:
    if not collectives:
        return f"{'Shardy inserts' if partitioned is None else 'The partitioner makes'} no collective."
    totals = []
    for group in group_items(collectives, lambda each: (each.axes, each.kind)):
        counts = (sum(each.count for each in group), sum(each.total_payload for each in group), sum(each.total_sent for each in group))
        totals.append((axes_text(group[0].axes), group[0].kind, f"{counts[0]:,}", format_bytes(counts[1]), format_bytes(counts[2])))
    text = table_text(["mesh axis", "collective", "times a step>", "payload per device>", "sent per device>"], totals)
    return f"Sent between devices, by mesh axis\n\n{text}\n\n{_largest_text(collectives)}"


def _largest_text(collectives: Sequence[Collective]) -> str:
    groups = group_items(collectives, lambda each: (each.kind, each.axes, each.payload, template(each.path), each.source))
    groups.sort(key=lambda group: -sum(each.total_sent for each in group))
    rows = []
    for group in groups[:LARGEST]:
        first = group[0]
        path = tail_text(template(first.path) if len(group) > 1 else first.path)
        count = f"{sum(each.count for each in group):,} × {format_bytes(first.payload)}"
        sent = format_bytes(sum(each.total_sent for each in group))
        rows.append((first.kind, axes_text(first.axes), count, sent, path, tail_text(first.source, 24)))
    text = table_text(["collective", "mesh axis", "times × payload>", "sent>", "operation", "source"], rows)
    rest = [each for group in groups[LARGEST:] for each in group]
    more = f"\n  and {len(groups) - LARGEST} smaller ones, {format_bytes(sum(each.total_sent for each in rest))} together" if rest else ""
    return f"Largest collectives, by operation\n\n{text}{more}"


def diagnostics_text(diagnostics: Sequence[Diagnostic]) -> str:
    if not diagnostics:
        return ""
    lines = []
    for diagnostic in diagnostics:
        fix = f" Suggested fix: {' · '.join(str(edit) for edit in diagnostic.edits)}." if diagnostic.edits else ""
        lines.append(wrap_text(f"- {diagnostic.subject}: {diagnostic.message}{fix}", indent="    ", first="  "))
    return "Warnings\n\n" + "\n".join(lines)


def carried_text(program: Program) -> str:
    """Format which arguments are carried, new per step, or only read; empty without state, or for steps from a loss."""
    if not program.carried or program.step.training is not None:
        return ""
    carried = {argument for _, argument in program.carried}
    groups = {"Carried to the next step": carried, "New per step": set(program.inputs) - carried, "Only read": set(program.state) - carried}
    lines = [f"{title}: {_roots_text(program, indices)}." for title, indices in groups.items() if indices]
    return "\n".join(wrap_text(line) for line in lines)


def _roots_text(program: Program, indices: Iterable[int]) -> str:
    """Format as `params (12 arrays), opt_state (25 arrays), key`."""
    counts: dict[str, int] = {}
    for index in sorted(indices):
        root = program.arguments[index].path.partition("/")[0]
        counts[root] = counts.get(root, 0) + 1
    roots = [root if count == 1 else f"{root} ({count} arrays)" for root, count in counts.items()]
    more = f" and {len(roots) - _MOST_PATHS} more" if len(roots) > _MOST_PATHS else ""
    return ", ".join(roots[:_MOST_PATHS]) + more
