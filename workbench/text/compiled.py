"""A compiled plan as text: memory, collectives by mesh axis and kind, where the compiler's time goes."""

from collections.abc import Iterator, Sequence

from workbench.reports.compiled import Compiled, CompiledCollective, CompiledKernel
from workbench.core.text_tables import axes_text, group_items, pairs_text, table_text, tail_text, wrap_text
from workbench.units import format_bytes, format_count, format_seconds

_MOST_ROWS = 12  # rows of one table


def compiled_text(compiled: Compiled) -> str:
    """A compiled plan: memory, collectives, kernels, as text."""
    when = "read from disk, compiled before" if compiled.from_cache else "compiled"
    sections = [
        wrap_text(f"For {compiled.target} by {compiled.compiler}, {when} in {format_seconds(compiled.compile_seconds)}"),
        f"A device of stage {compiled.fullest}, the fullest:" if compiled.stages else "",
        pairs_text(_figures(compiled)),
        _stages(compiled),
        _rematerialised_text(compiled),
        _collectives(compiled.collectives),
        _kernels(compiled),
        _at_peak(compiled),
    ]
    return "\n\n".join(section for section in sections if section)


def _rematerialised_text(compiled: Compiled) -> str:
    """The partitioner's warnings of rematerialisation."""
    lines = [
        wrap_text(f"- {each.path or each.name}: {each.shape} from {each.before} to {each.after}", indent="    ", first="  ")
        for each in compiled.rematerialised
    ]
    return "\n".join(["Gathered whole, as the compiler warns (involuntary full rematerialization)\n", *lines]) if lines else ""


def _stages(compiled: Compiled) -> str:
    """A row per stage of a pipeline."""
    rows = [
        (
            str(number),
            format_bytes(each.memory.peak),
            format_bytes(each.memory.arguments),
            format_bytes(sum(one.total_payload for one in each.collectives)),
            format_count(each.flops, "FLOP"),
        )
        for number, each in enumerate(compiled.stages)
    ]
    return table_text(["stage", "peak>", "held throughout>", "sent inside of it>", "arithmetic>"], rows) if rows else ""


def _figures(compiled: Compiled) -> Iterator[tuple[str, str, str]]:
    memory = compiled.memory
    parts = {
        "arguments": memory.arguments,
        "results beside them": memory.outputs - memory.aliased,
        "temporaries": memory.temporary,
    }
    yield (
        "memory per device",
        format_bytes(memory.peak),
        " · ".join(f"{name} {format_bytes(count)}" for name, count in parts.items() if count),
    )
    if memory.live:
        wasted = max(memory.temporary - memory.live, 0)
        yield "temporaries alive at once", format_bytes(memory.live), f"packing them takes {format_bytes(wasted)} more" if wasted else ""
    if memory.host:
        yield "host memory per device", format_bytes(memory.host), "what is offloaded"
    sent = sum(each.total_payload for each in compiled.collectives)
    executed = sum(each.count for each in compiled.collectives)
    yield "communication payload", format_bytes(sent), f"{format_count(executed)} collectives a step"
    yield (
        "arithmetic per device",
        format_count(compiled.flops, "FLOP"),
        f"{format_count(sum(each.count for each in compiled.kernels))} kernels a step",
    )
    if compiled.compute_seconds is not None:
        yield (
            "compute time",
            format_seconds(compiled.compute_seconds),
            "the compiler's estimate of its kernels; collectives, gathers, scatters and sorts are not in it",
        )


def _collectives(collectives: Sequence[CompiledCollective]) -> str:
    """One row for each set of mesh axes and kind; decomposed collectives with their number of pieces."""
    rows = []
    for group in group_items(collectives, lambda each: (each.axes, each.part_of or each.kind)):
        pieces = sum(each.count * each.pieces for each in group if each.part_of)
        overlapped = sum(each.total_payload for each in group if each.overlaps)
        total = sum(each.total_payload for each in group)
        notes = []
        if pieces:
            notes.append(f"{format_count(pieces)} permutes are its pieces")
        if overlapped:
            notes.append(f"{overlapped / total:.0%} beside other work")
        rows.append(
            (
                axes_text(group[0].axes),
                group[0].part_of or group[0].kind,
                format_count(sum(each.count for each in group)),
                format_bytes(total),
                ", ".join(notes),
            )
        )
    return table_text(["mesh axis", "kind", "executed>", "payload>", "~"], rows) if rows else "No device sends anything."


def _kernels(compiled: Compiled) -> str:
    """The kernels with the longest time by the compiler's estimate."""
    total = compiled.compute_seconds
    if not total:
        return ""
    groups = group_items([each for each in compiled.kernels if each.seconds], lambda each: each.path or each.kind)
    groups.sort(key=_seconds, reverse=True)
    rows = [
        (
            tail_text(group[0].path) or group[0].kind,
            group[0].source,
            format_seconds(_seconds(group)),
            f"{_seconds(group) / total:.1%}",
            format_count(sum(each.flops * each.count for each in group), "FLOP"),
        )
        for group in groups[:_MOST_ROWS]
    ]
    more = f"\n and {len(groups) - _MOST_ROWS} more" if len(groups) > _MOST_ROWS else ""
    return table_text(["operation", "line", "time>", "of it>", "arithmetic>"], rows) + more


def _seconds(group: Sequence[CompiledKernel]) -> float:
    return sum((each.seconds or 0.0) * each.count for each in group)


def _at_peak(compiled: Compiled) -> str:
    if not compiled.alive_at_peak:
        return ""
    groups = group_items(compiled.alive_at_peak, lambda each: each[0])
    groups.sort(key=lambda group: -sum(count for _, count in group))
    rows = [(tail_text(group[0][0]), str(len(group)), format_bytes(sum(count for _, count in group))) for group in groups[:_MOST_ROWS]]
    return f"Largest temporaries at the peak\n\n{table_text(['made by', 'buffers>', 'bytes>'], rows)}"
