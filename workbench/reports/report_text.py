"""A report as text; it also exports the texts of other records."""

from collections.abc import Callable, Iterable, Sequence

from workbench.analysis.prediction_intervals import MEMORY, SENT, STEP, Range, ranges_of
from workbench.core.path_patterns import template
from workbench.core.source_annotations import source_annotations_text
from workbench.core.tensor import Role
from workbench.core.text_tables import WIDTH, axes_text, dims_text, group_items, pairs_text, shape_text, table_text, tail_text, wrap_text
from workbench.errors import PipelineError
from workbench.hardware.hardware import Hardware
from workbench.hardware.hardware_text import axis_assignment_text
from workbench.reports.collective import Collective
from workbench.reports.diagnostic import Diagnostic
from workbench.reports.duplication import ONCE, duplication_of
from workbench.reports.memory import Memory
from workbench.reports.pipeline import headline_figures
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.reports.resharding_text import padding_text, reshards_text
from workbench.reports.step_time import StepTime
from workbench.units import format_bytes, format_count, format_dollars, format_range, format_seconds, price_text

LARGEST = 12  # collectives shown one by one


def report_text(report: Report) -> str:
    """The whole report: head, key figures, arguments, collectives, diagnostics."""
    plan, shown = report.plan, report.most(lambda each: each.memory.peak)
    devices = f"{report.mesh.size:,} device" + "s" * (report.mesh.size != 1)
    title = plan.name if plan.name == plan.program.name else f"{plan.name} ({plan.program.name})"
    title += "" if report.stage is None else f", stage {report.stage} of {report.plan.pipeline},"
    laid_out = "; ".join(filter(None, (str(plan.layout) or "everything replicated", plan.program.traced_with)))
    where = f"{report.mesh} ({devices})" if report.mesh.axes else report.mesh.description
    head = wrap_text(f"{title} on {where}, {laid_out}")
    sections = [
        head,
        pairs_text(_figures(report)),
        _pipeline(report),
        f"Arguments, and what one device{_of_stage(report, shown)} holds of them\n\n{_arguments(shown.arguments)}",
        source_annotations_text(report.source_annotations) if report.stage is None else "",
        _collectives(shown),
        reshards_text(shown.reshards),
        padding_text(shown.padding),
        _diagnostics(report.notes) if report.stage is None else "",
    ]
    return "\n\n".join(section for section in sections if section)


def _of_stage(report: Report, shown: Report) -> str:
    return "" if shown is report else f" of stage {shown.stage}, the fullest,"


def _pipeline(report: Report) -> str:
    """The pipeline's own report, or why there is none."""
    if report.is_of_devices and not report.is_one_program:
        return ""
    try:
        return str(report.pipeline) if report.stages else ""
    except PipelineError as error:
        remark = "(The figures above are of the program whole, on the devices of one stage.)"
        return f"{remark}\n\nPipeline {report.plan.pipeline}\n\n  {error}"


def _figures(report: Report) -> Iterable[tuple[str, str, str]]:
    memory, flops, time = report.memory, report.flops, report.step_time
    planned = report.staged_pipeline
    ranges = ranges_of(report)
    if planned:
        fullest = report.fullest
        yield from _memory_figures(fullest.memory, None, f"stage {fullest.stage}, the fullest: ")
        yield from headline_figures(planned, time)
    else:
        yield from _memory_figures(memory, ranges.get(MEMORY))
    if memory.host:
        moved = f"offloaded; {format_bytes(report.host_traffic)} a step go there and back"
        yield "host memory per device", format_bytes(memory.host), moved
    most = report.most(lambda each: each.sent)
    yield _sent_figure(most, ranges.get(SENT), "" if planned is None else f"within stage {most.stage}, the most")
    if planned is None:
        yield "tier of what is sent", "compiled" if report.is_scheduled else report.prediction.tier, _tier_source_text(report)
    if report.compiled is not None:
        what, does = ("memory and kernels", "compiles") if report.is_compiled else ("memory", "schedules")
        yield f"tier of {what}", "compiled", f"as {report.compiled.compiler} {does} it for {report.compiled.target}"
    where = f"of stage {planned.busiest}, the most; " if planned else "" if report.stage is None else "on all devices of the stage: "
    local = planned.flops(planned.busiest) if planned else flops.per_device
    yield "arithmetic per device", format_count(local, "FLOP"), f"{where}{format_count(flops.unique, 'FLOP')} in the whole step"
    yield "duplication", f"{report.duplication:.2f} ×", _duplication_text(report)
    if 0 < flops.model < flops.unique:
        yield "computed again", format_count(flops.unique - flops.model, "FLOP"), "by rematerialisation, of that"
    if flops.six_nd:
        yield "by parameters × tokens", format_count(flops.six_nd, "FLOP"), "6 N D for a training step, 2 N D forward"
    if time is not None and planned is None:
        yield from _time_figures(time, ranges.get(STEP))
    plan = report.plan
    if plan.hardware and time is not None:
        yield from _price_figures(plan.hardware, planned.seconds if planned else time.total)
    if plan.hardware and (routes := axis_assignment_text(plan.mesh, plan.hardware, plan.axis_assignment)):
        yield "the mesh on its links", "", routes
    if plan.hardware and (idle := plan.hardware.size - report.mesh.size) > 0:
        yield "devices used", f"{report.mesh.size:,} of {plan.hardware.size:,}", f"the other {idle:,} of {plan.hardware} are idle"


def _sent_figure(report: Report, found: Range | None, of_stage: str) -> tuple[str, str, str]:
    """What leaves a device, over each set of mesh axes; of a pipeline within the stage that sends most."""
    sent: dict[tuple[str, ...], int] = {}
    for each in report.collectives:
        sent[each.axes] = sent.get(each.axes, 0) + each.total_sent
    parts = " · ".join(f"{axes_text(axes)} {format_bytes(n)}" for axes, n in sent.items())
    return "sent per device and step", _figure_with_range(report.sent, found, format_bytes), ": ".join(filter(None, (of_stage, parts)))


def _tier_source_text(report: Report) -> str:
    if report.partitioned is None:
        return "as Shardy places it, at once"
    return f"as {report.partitioned.compiler} {'schedules' if report.is_scheduled else 'partitions'} it"


def _figure_with_range(value: float, found: Range | None, show: Callable[[float], str]) -> str:
    """A figure, and the interval that holds nine of ten true ones, if that is known."""
    return show(value) if found is None else f"{show(value)} ({format_range(found.low, found.high, show)})"


def _memory_figures(memory: Memory, found: Range | None, of_stage: str = "") -> Iterable[tuple[str, str, str]]:
    roles = [f"{role} {format_bytes(count)}" for role, count in memory.by_role.items() if count]
    yield "memory per device", _figure_with_range(memory.peak, found, format_bytes), of_stage + " · ".join(roles)
    if memory.reserved:
        yield "reserved", format_bytes(memory.reserved), "what the runtime's allocator holds of the device then"
    if memory.capacity:
        share = memory.peak / memory.capacity
        yield "of a device's", format_bytes(memory.capacity), f"{share:.0%}: {_fit_text(memory)}"


def _fit_text(memory: Memory) -> str:
    if not memory.fits:
        return "too much"
    return "fits, if the allocator gives back what it holds besides" if memory.reserved > memory.capacity else "fits"


def _time_figures(time: StepTime, found: Range | None) -> Iterable[tuple[str, str, str]]:
    parts = {
        "compute-bound kernels": time.arithmetic,
        "memory-bound kernels": time.memory,
        "communication waited for": time.exposed,
        "starting kernels": time.launch,
        **({"waiting for the host": time.host} if time.host_counts else {}),
        **({"waiting for other stages": time.idle} if time.idle else {}),
    }
    shown = " · ".join(f"{name} {format_seconds(seconds)}" for name, seconds in parts.items())
    yield "step time, predicted", _figure_with_range(time.total, found, format_seconds), f"{shown}, {time.place}"
    if time.communication:
        yield "communication hidden", format_seconds(time.hidden), f"behind computation, of {format_seconds(time.communication)} in all"
    if time.mfu:
        yield "model FLOPs utilisation", f"{time.mfu:.1%}", f"hardware FLOPs utilisation {time.hfu:.1%}"


def _price_figures(hardware: Hardware, seconds: float) -> Iterable[tuple[str, str, str]]:
    """What a step costs, where a chip has a price: devices that the plan leaves idle are paid for, too."""
    if (hourly := hardware.hourly_price) is not None:
        step = hourly * seconds / 3600
        rate = f"{format_dollars(hourly)} an hour at {price_text(hardware.chip.price or 0)} a chip"
        yield "price of 1,000 steps", format_dollars(1000 * step), f"{format_dollars(step)} a step; {rate}"


def _duplication_text(report: Report) -> str:
    if report.duplication < ONCE:
        return "no product is computed twice"
    return f"each product is computed {report.duplication:.2f} times over all devices, {duplication_of(report)}"


def _arguments(placements: Sequence[Placement]) -> str:
    """One row for all layers that are sharded alike, and one for all optimiser state that is sharded like its parameters."""
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
        count = f"{len(followers)} more of the optimizer state"
        rows.append((count, "", "as their parameters", "", "", format_bytes(sum(each.local_bytes for each in followers))))
    return table_text(["path", "type", "dimensions~", "on", "per device", "bytes>"], rows)


def _split_followers(placements: Sequence[Placement]) -> tuple[list[Placement], list[Placement]]:
    """Split off optimiser state with the shape, the sharding and the path's tail of a parameter (Adam's moments), which needs no row."""
    leaders = {
        (each.tensor.path.partition("/")[2], each.tensor.shape, each.sharding) for each in placements if each.tensor.role is Role.PARAMETER
    }

    def follows(each: Placement) -> bool:
        words = each.tensor.path.split("/")
        tails = ("/".join(words[i:]) for i in range(1, len(words)))
        return each.tensor.role is Role.OPTIMIZER_STATE and any((tail, each.tensor.shape, each.sharding) in leaders for tail in tails)

    followers = [each for each in placements if follows(each)]
    return [each for each in placements if not follows(each)], followers


def _collectives(report: Report) -> str:
    collectives = report.collectives
    if not collectives:
        return f"{'Shardy inserts' if report.partitioned is None else 'The partitioner makes'} no collective."
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
    return f"The largest of them, by operation\n\n{text}{more}"


def _diagnostics(diagnostics: Sequence[Diagnostic]) -> str:
    if not diagnostics:
        return ""
    lines = []
    for each in diagnostics:
        mend = f" Mend it: {' · '.join(str(edit) for edit in each.edits)}." if each.edits else ""
        lines.append(wrap_text(f"- {each.subject}: {each.message}{mend}", indent="    ", first="  "))
    return "To mind\n\n" + "\n".join(lines)


__all__ = ["WIDTH", "axes_text", "dims_text", "pairs_text", "report_text", "shape_text", "table_text"]
