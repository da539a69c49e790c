"""`analyze`: from a plan to a report. Pure: the same plan gives the same report; nothing executes, nothing is traced again."""

from workbench.analysis.compiled_report import with_compiled
from workbench.analysis.diagnose import diagnose
from workbench.analysis.report_details import PlannedDetails
from workbench.cost.estimate import estimate
from workbench.hardware.hardware import Hardware
from workbench.pipeline.spmd_pipeline_plan import as_spmd_program
from workbench.plan.plan import Plan
from workbench.reports.partitioned import Partitioned
from workbench.reports.report import Report


def analyze(plan: Plan, hardware: Hardware | None = None, answer: Partitioned | None = None) -> Report:
    """Everything the planner knows of a plan: Shardy's propagation, and its cost on one device; the step time if the hardware is known.

    With the partitioner's `answer` to the plan, its collectives replace the planned ones, and so do all figures that depend on them; where
    it came from the hardware's own compiler, memory and kernels are also that compiler's. Raises `PartitionError` where Shardy refuses the
    plan.
    """
    found = estimate(plan, hardware, answer)
    report = Report(
        plan=plan,
        arguments=found.arguments,
        results=found.results,
        collectives=found.collectives,
        memory=found.memory,
        flops=found.flops,
        traffic=found.traffic,
        kernels=int(found.kernels.times.sum()),
        host_traffic=found.host_traffic,
        step_time=found.step_time,
        hardware=found.hardware,
        partitioned=answer,
        details=PlannedDetails(found, _analyze_as_run),
    )
    report = diagnose(report, found.planned, found.partitioned.edges)  # edits are tried on Shardy's propagation, and compared with that
    return with_compiled(report, answer.scheduled) if answer is not None and answer.scheduled is not None else report


def _analyze_as_run(plan: Plan, hardware: Hardware | None) -> Report | None:
    """An SPMD pipeline is another program, and is planned as that."""
    if plan.pipeline is None or plan.pipeline.engine != "spmd":
        return None
    return analyze(as_spmd_program(plan), hardware)
