"""What the compilers say of the chosen plan: a button that asks them, how far they are, and their figures beside the planned ones."""

from typing import Any

from workbench.plan.plan import Plan
from workbench.reports.verified_plan import FigureName, TierName, VerifiedPlan, reason_text, share_of_planned_text, tier_figure_text
from workbench.search.candidates import PlanCandidate
from workbench.widgets.board.tier_marks import SAYS
from workbench.widgets.find.verification import PENDING, Verification
from workbench.widgets.gestures.finding import StopVerifyingGesture, VerifyFoundGesture
from workbench.widgets.tabs.blocks import Block, Cell, Column, Row, block, row
from workbench.widgets.tabs.edit_buttons import act

FAR = 0.1
"""A difference from which on it stands out, as a share of what was planned."""
_HINT = "XLA's partitioner, then the compiler of its hardware, in processes of their own: how near the planned figures are"
_PLANNER = "Shardy's placement and the cost model, as the search has it"


def verify_act(verification: Verification, candidate: PlanCandidate, number: str) -> dict[str, Any]:
    """The button of the card: it asks, or stops what was asked."""
    if verification.is_asking(candidate):
        return act("Stop asking", StopVerifyingGesture(), title="What was answered stays", focus="verify")
    return act("Ask the compilers", VerifyFoundGesture(number), title=_HINT, focus="verify")


def waiting_text(verification: Verification, candidate: PlanCandidate) -> str:
    """What is awaited about a candidate; empty for nothing."""
    asked = verification.of(candidate)
    if asked is None or not verification.is_asking(candidate):
        return ""
    if verification.tier == "partitioned":
        return "Asking XLA's partitioner…"
    return f"Asking the compiler {_target(asked.plan)}: {verification.stage}…"


def verified_blocks(verification: Verification, candidate: PlanCandidate) -> list[Block]:
    """The figures of each tier, a row each; nothing where nobody was asked."""
    verified = verification.of(candidate)
    if verified is None:
        return []
    columns = (
        Column(""),
        Column("step", number=True),
        Column("than planned", number=True),
        Column("memory", number=True),
        Column("than planned", number=True),
        Column("by"),
    )
    rows = [_tier_row(verified, tier) for tier in ("planned", "partitioned", "compiled")]
    return [block("What the compilers say of it", columns, rows)]


def _tier_row(verified: VerifiedPlan, tier: TierName) -> Row:
    cells = (*_figure_cells(verified, tier, "seconds", "seconds"), *_figure_cells(verified, tier, "memory", "bytes"))
    return row(tier, {"text": tier, "title": SAYS[tier]}, *cells, _source_cell(verified, tier))


def _figure_cells(verified: VerifiedPlan, tier: TierName, figure: FigureName, unit: str) -> tuple[Cell, Cell]:
    found = verified.tier(tier)
    value, difference = getattr(found, figure), verified.difference(figure, tier)
    if value is None:
        return {"text": "…" if found == PENDING else "–", "tone": "muted"}, ""
    shown = tier_figure_text(value, unit)
    if tier == "planned":
        return shown, ""
    text = share_of_planned_text(difference)
    tone = "warn" if abs(difference or 0.0) >= FAR else "muted" if text == "same" else ""
    return {"text": shown, "tone": "strong"}, {"text": text, "tone": tone}


def _source_cell(verified: VerifiedPlan, tier: TierName) -> Cell:
    """Whose figures they are, or why there are none."""
    found, by = verified.tier(tier), _PLANNER if tier == "planned" else verified.tier(tier).compiler
    text = " ".join(filter(None, (f"{by}." if by and found.reason else by, reason_text(verified, tier))))
    return {"text": text, "tone": "" if found.reason else "muted", "wrap": True}


def _target(plan: Plan) -> str:
    return f"of {plan.hardware}" if plan.hardware else "of the attached devices"
