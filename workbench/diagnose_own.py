"""What to mind in operations that communicate by themselves: what is not counted, what no rule is known for, and where XLA goes wrong."""

import itertools
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from workbench.edits import PlaceDim
from workbench.legality import why_illegal
from workbench.partition import Propagated
from workbench.plan import Plan
from workbench.program import Program
from workbench.report import Diagnostic, Report
from workbench.sharding import base_axis


def own_notes(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    yield from _uncounted(report, partitioned)
    yield from _without_rule(report, partitioned)
    yield from _summed_too_often(report, partitioned)
    yield from _padded_alike(report, partitioned)
    yield from _aborts(report, partitioned)


def subject_of(program: Program, index: int) -> str:
    """How a message names an operation."""
    operation = program.operations[index]
    return operation.path or operation.source or operation.kind


def _uncounted(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    """Operations that read across the cut of a dimension in a way that is not known, a kind at a time."""
    structure = partitioned.structure
    uncounted = (index for index in structure.shifting if index not in partitioned.own.counted)
    for kind, indices in _by_kind(report, [index for index in uncounted if _reads_across(partitioned, index)]).items():
        yield Diagnostic(
            "not counted",
            subject_of(report.plan.program, indices[0]),
            f"`{kind}` moves data along a sharded dimension, in {_places(indices)}. Shardy leaves that to XLA, which has no partitioned "
            "form of it or takes the operation apart first; what it sends is not counted here.",
        )


def _reads_across(partitioned: Propagated, index: int) -> bool:
    op = partitioned.structure.ops[index]
    shifted = op.shifted or (0,)
    return op.own is not None and any(_is_cut(partitioned, value, shifted) for value in (op.operands[0], op.results[0]))


def _is_cut(partitioned: Propagated, value: int, dims: Sequence[int]) -> bool:
    lies = partitioned.dims[value]
    return lies is not None and any(lies[dim] for dim in dims if dim < len(lies))


def _without_rule(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    """Operations that Shardy has no rule for, a kind at a time; only where something of them is cut."""
    ops = partitioned.structure.ops
    cut = [
        index
        for index in partitioned.structure.ruleless
        if any(any(partitioned.dims[value] or ()) for value in (*ops[index].operands, *ops[index].results))
    ]
    for kind, indices in _by_kind(report, cut).items():
        yield Diagnostic(
            "no sharding rule",
            subject_of(report.plan.program, indices[0]),
            f"Shardy has no rule for `{kind}`, in {_places(indices)}: no sharding spreads through it, in either direction, every device "
            "makes the whole result, and what XLA sends to bring its operands together is not counted. "
            "Ways out: constrain what comes out of it, or write it in operations that have rules.",
        )


def _summed_too_often(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    for index, axes in partitioned.own.repeated.items():
        times, named = 1, " and ".join(f"`{axis}`" for axis in axes)
        for axis in axes:
            times *= report.mesh[axis]
        yield Diagnostic(
            "wrong result",
            subject_of(report.plan.program, index),
            f"XLA makes this convolution {times} times too large: it sums the parts of its image over all devices, "
            f"those along {named} too, which hold the same parts. Let {named} split the batch, or keep the image whole.",
            _mends(report, axes),
        )


def _padded_alike(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    """Operations that get the padding of others (`partition.shared_borders`)."""
    ops = partitioned.structure.ops
    for index, (first, padded) in partitioned.own.shared.mistaken.items():
        lies = partitioned.dims[ops[index].operands[0]] or ()
        axes = tuple(axis for dim in padded for axis in lies[dim])
        yield Diagnostic(
            "wrong result",
            subject_of(report.plan.program, index),
            f"XLA makes the padding of this operation and of `{subject_of(report.plan.program, first)}` once: both read the same value "
            f"through the same windows, but they pad it with different numbers, and one of the two comes out wrong. Leave whole what "
            f"{' and '.join(f'`{axis}`' for axis in axes)} splits here, or let one of them read other windows.",
            _freed(report, {base_axis(axis) for axis in axes}),
        )


def _freed(report: Report, axes: AbstractSet[str]) -> tuple[PlaceDim, ...]:
    """Edits that take the axes from the dimensions that lie along them."""
    rules = report.plan.layout.rules
    return tuple(PlaceDim(dim, tuple(axis for axis in placed if axis not in axes)) for dim, placed in rules if set(placed) & axes)


def _mends(report: Report, axes: Sequence[str]) -> tuple[PlaceDim, ...]:
    """What lies along the axes is left whole, where something does; else the first dimension of the inputs that may go there, the batch as
    a rule, does, too."""
    plan = report.plan
    if there := _freed(report, set(axes)):
        return there
    rules = dict(plan.layout.rules)
    dims = dict.fromkeys(dim for index in plan.program.inputs for dim in plan.program.arguments[index].dims)
    found = (PlaceDim(dim, (*rules.get(dim, ()), *axes)) for dim in dims)
    return tuple(itertools.islice((each for each in found if _is_legal(plan, each)), 1))


def _is_legal(plan: Plan, edit: PlaceDim) -> bool:
    return why_illegal(plan.program, plan.mesh, plan.layout, edit.dim, edit.axes) is None


def _aborts(report: Report, partitioned: Propagated) -> Iterator[Diagnostic]:
    for index, why in partitioned.own.aborts.items():
        yield Diagnostic(
            "compiler stops",
            subject_of(report.plan.program, index),
            f"XLA cannot partition this operation and stops the process with a failed check: {why} along a cut dimension. "
            "Ways out: leave that dimension whole, or choose a stride and padding whose gradient needs no negative padding.",
        )


def _by_kind(report: Report, indices: Sequence[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index in indices:
        found.setdefault(report.plan.program.operations[index].kind, []).append(index)
    return found


def _places(indices: Sequence[int]) -> str:
    return f"{len(indices)} {'place' if len(indices) == 1 else 'places'}"
