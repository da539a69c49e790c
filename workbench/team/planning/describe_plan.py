"""What the gallery keeps of a plan: its canonical document, what it is searched by, its figures and a small picture."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workbench import __version__
from workbench.documents import dump_plan
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.team.store.store import digest_of
from workbench.team.web.services import DescribedPlan
from workbench.visualize.layout_thumbnail import thumbnail


def describe_plan(plan: Plan, report: Report) -> DescribedPlan:
    """A plan with its report, as the store keeps it. Raises `DocumentError` for one that cannot be written as a document."""
    document = dump_plan(plan)
    reference = plan.program.reference
    assert reference is not None, "a plan without one has no document"
    return DescribedPlan(
        document=document,
        digest=digest_of(document),
        target=reference.target,
        mesh=str(plan.mesh),
        devices=plan.mesh.size,
        hardware=str(plan.hardware or ""),
        layout=str(plan.layout),
        dims=tuple(plan.program.dims),
        figures={report.tier: figures_of(report)},
        thumbnail=thumbnail(report),
    )


def figures_of(report: Report) -> Mapping[str, Any]:
    """The figures of one tier: bytes at the peak and sent by the fullest device, seconds of a step, and whether it fits."""
    sent = report.most(lambda each: each.sent).sent
    planned = report.staged_pipeline or report.memory
    fits = planned.fits if report.hardware is not None else None
    return {"peak_bytes": report.peak, "sent_bytes": sent, "step_seconds": report.seconds, "fits": fits}


def description_record(described: DescribedPlan) -> dict[str, Any]:
    """As a message to the server."""
    return {**asdict(described), "version": __version__}
