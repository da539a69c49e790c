"""Diagnose resharding: values that XLA's partitioner gathers whole, and reshards with much traffic."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from workbench.analysis.remedies import avoid_rematerialisation
from workbench.propagation import Propagated, reshard_list
from workbench.propagation.reshard_edges import Edge
from workbench.propagation.structure.program_structure import operations_at_places
from workbench.reports.diagnostic import Diagnostic
from workbench.reports.partitioned import GatheredWhole
from workbench.reports.report import Report
from workbench.reports.reshard import REMATERIALISATION, Reshard
from workbench.units import format_bytes

_MOST_NAMED = 3  # items listed in a message
_MIN_TRAFFIC_SHARE = 0.25  # share of all bytes sent
_MIN_TRAFFIC = 1 << 20  # bytes


def diagnose_rematerialisations(report: Report, partitioned: Propagated, edges: Sequence[Edge]) -> list[Diagnostic]:
    """Return the partitioner's rematerialization warnings, with an intermediate sharding that avoids each, if found."""
    gathering = [edge for edge in edges if edge.gathered_whole]
    matched = {warning for edge in gathering for warning in edge.gathered_whole}
    unmatched = [warning for warning in (report.partitioned.gathered_whole if report.partitioned else ()) if warning not in matched]
    places = _list_reshards(report, partitioned, gathering) if gathering else ()
    return [
        Diagnostic(
            REMATERIALISATION,
            each.path,
            f"XLA finds no method from {each.before} to {each.after} for `{each.path}`{source_text(each.source)}, "
            f"which {_reader_text(each)} needs: "
            f"every device gathers {_gathered_text(each)} and keeps its shard. {format_bytes(each.sent)} are sent per device and step, and "
            f"{format_bytes(each.temporary)} are held at the peak.",
            find=partial(avoid_rematerialisation, report.plan, partitioned, each) if number < _MOST_NAMED else None,
        )
        for number, each in enumerate(places)
    ] + [_diagnose_unmatched_warning(report, partitioned, each) for each in unmatched]


def _diagnose_unmatched_warning(report: Report, partitioned: Propagated, warning: GatheredWhole) -> Diagnostic:
    (number,) = operations_at_places(partitioned.structure, [warning.operation])
    operation = None if number is None else report.plan.program.operations[number]
    name = f"`{operation.path}`{source_text(operation.source)}" if operation else "a value"
    return Diagnostic(
        REMATERIALISATION,
        operation.path if operation else "",
        f"XLA's partitioner warns that it finds no method for {name} from {warning.before} to {warning.after}: every device gathers "
        f"{warning.shape} whole and keeps its shard.",
    )


def _list_reshards(report: Report, partitioned: Propagated, edges: list[Edge]) -> tuple[Reshard, ...]:
    return reshard_list(report.plan, replace(partitioned, edges=edges), lambda moves: [0.0] * len(moves))


def _gathered_text(each: Reshard) -> str:
    largest = max(each.moves, key=lambda move: move.payload)
    return f"{format_bytes(largest.payload)}, {_shape_text(each)} of {each.dtype},"


def _shape_text(each: Reshard) -> str:
    return " x ".join(map(str, each.shape))


def source_text(source: str) -> str:
    return f" ({source})" if source else ""


def _reader_text(each: Reshard) -> str:
    return f"`{each.reader}`{source_text(each.reader_source)}"


def diagnose_resharding(report: Report, partitioned: Propagated, edges: Sequence[Edge]) -> list[Diagnostic]:
    """Diagnose reshards of values that take a large share of the bytes sent; gathering a parameter is intended."""
    if not report.sent:
        return []
    values = [each for each in edges if each.argument is None and not each.gathered_whole and each.moves]
    places = _list_reshards(report, partitioned, values)
    return [
        Diagnostic(
            "resharding",
            each.path,
            f"`{each.path}`{source_text(each.source)} is sharded {each.before} and {_reader_text(each)} needs it {each.after}: "
            f"{each.way}, {format_bytes(each.sent)} per step, {each.sent / report.sent:.0%} of all bytes a device sends.",
        )
        for each in places
        if each.sent > _MIN_TRAFFIC_SHARE * report.sent and each.sent > _MIN_TRAFFIC
    ][:_MOST_NAMED]
