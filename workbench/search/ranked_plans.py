"""The plans of a search as rows, the same in every view: figures by the best tier known, and what differs from the present plan."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from workbench.core.fact_page import PageCell, Row, Table, figure
from workbench.core.program import Program
from workbench.cost.step_flops import count_tokens
from workbench.search.plan_candidate import DECISIONS, PlanCandidate
from workbench.search.tier_ranks import KnownFigures
from workbench.units import format_count, format_dollars, format_share

PRESENT = "present plan"
"""What the row of the plan that a search starts from is called; it is also its key where the view has no other."""


@dataclass(frozen=True, slots=True)
class RankedPlan:
    """A row: `key` is the view's name for the plan, `text` its decisions, `changes` those that differ from the present plan's; `tokens` of
    a step, 0 where its seconds are nominal or it reads none."""

    key: str
    known: KnownFigures
    text: str
    changes: str = ""
    tokens: int = 0
    candidate: PlanCandidate | None = None
    is_present: bool = False
    is_best: bool = False

    def numbered(self, key: str, *, is_best: bool) -> "RankedPlan":
        """The row by another name; whether it is the best."""
        return replace(self, key=key, is_best=is_best)

    @property
    def tokens_per_second(self) -> float | None:
        seconds = self.known.figures.seconds
        return self.tokens / seconds if self.tokens and seconds else None


def tokens_of(program: Program, *, has_times: bool) -> int:
    """Tokens of a step; 0 where seconds are nominal."""
    return count_tokens(program) if has_times else 0


def rank_plan(
    key: str,
    candidate: PlanCandidate | None,
    known: KnownFigures,
    present: PlanCandidate | None,
    tokens: int = 0,
    outside: str = "outside the search space",
) -> RankedPlan:
    """The row of a candidate; without one, of a present plan that lies `outside` the space, in these words."""
    is_present = candidate is None or candidate == present
    changes = PRESENT if is_present else changes_text(candidate, present) if candidate and present else ""
    return RankedPlan(key, known, str(candidate or outside), changes, tokens, candidate, is_present)


def changes_text(candidate: PlanCandidate, present: PlanCandidate) -> str:
    """The decisions of a candidate that differ from those of the present plan.

    >>> one = PlanCandidate("", (("data", 8), ("model", 1)), "replicated")
    >>> changes_text(replace(one, mesh=(("data", 4), ("model", 2)), layout="megatron"), one)
    'data:4 model:2, megatron'
    """
    names = [name for name in DECISIONS if candidate.decision(name) != present.decision(name)]
    shown = [name for name in names if name != "micro_batches" or candidate.schedule]
    return ", ".join(candidate.describe(name) for name in shown)


def with_utilisation(rows: Iterable[RankedPlan]) -> tuple[RankedPlan, ...]:
    """The rows with the model FLOPs utilisation of pipelines, too: what a program of one precision needs at the peak of all devices does
    not depend on its plan."""
    rows = tuple(rows)
    needed = {_precision(row): row.known.figures.mfu * _device_seconds(row) for row in rows if row.known.figures.mfu}
    return tuple(_with_mfu(row, needed) for row in rows)


def _with_mfu(row: RankedPlan, needed: Mapping[str, float]) -> RankedPlan:
    if row.known.figures.mfu or _precision(row) not in needed or not _device_seconds(row):
        return row
    return replace(row, known=replace(row.known, figures=replace(row.known.figures, mfu=needed[_precision(row)] / _device_seconds(row))))


def _precision(row: RankedPlan) -> str:
    return row.candidate.precision if row.candidate else ""


def _device_seconds(row: RankedPlan) -> float:
    return row.known.figures.seconds * row.known.figures.devices


def plans_table(rows: Iterable[RankedPlan], heading: str = "") -> Table:
    """The rows as a table; a column stands where a row has something for it, and devices where they differ."""
    rows = with_utilisation(rows)
    cells = [_cells(row) for row in rows]
    several = len({row.known.figures.devices for row in rows}) > 1
    shown = [name for name in _COLUMNS if name not in _OPTIONAL or any(each[name].value for each in cells)]
    shown = [name for name in shown if name != _DEVICES or several]
    return Table(shown, [Row([each[name] for name in shown], row.key) for each, row in zip(cells, rows, strict=True)], heading=heading)


_DEVICES, _PLAN = "devices>", "plan~"
_COLUMNS = ("", "step>", "tokens/s>", "MFU>", "memory>", _DEVICES, "1,000 steps>", "tier", _PLAN, "changes~")
_OPTIONAL = ("tokens/s>", "MFU>", "1,000 steps>", "changes~")


def _cells(row: RankedPlan) -> dict[str, PageCell]:
    found, tone = row.known.figures, "strong" if row.is_best else ""
    speed = row.tokens_per_second
    values = (
        PageCell("" if row.key == PRESENT else row.key),
        figure(found.seconds, "seconds", tone),
        PageCell(speed and format_count(speed)),
        PageCell(found.mfu and format_share(found.mfu)),
        figure(int(found.memory), "bytes", tone),
        PageCell(f"{found.devices:,}"),
        PageCell(None if found.dollars is None else format_dollars(found.dollars)),
        PageCell(row.known.tier),
        PageCell(row.text),
        PageCell(row.changes, tone="strong" if row.is_present else ""),
    )
    return dict(zip(_COLUMNS, values, strict=True))


def row_record(row: RankedPlan) -> dict[str, object]:
    """A row as plain values."""
    found = row.known.figures
    figures = {name: getattr(found, name) for name in ("seconds", "memory", "devices", "dollars", "mfu")}
    return {"plan": row.text, **figures, "tokens_per_second": row.tokens_per_second, "tier": row.known.tier, "changes": row.changes or None}
