"""`analyze`: a plan to a report. Pure: same plan, same report; nothing executes, nothing is traced again."""

from workbench.analysis.compiled_report import with_compiled
from workbench.analysis.details import PlannedDetails
from workbench.analysis.diagnose import diagnose
from workbench.cost.estimate import estimate
from workbench.hardware.hardware import Hardware
from workbench.pipeline.spmd_program import as_spmd_program
from workbench.plan.plan import Plan
from workbench.reports.partitioned import Partitioned
from workbench.reports.report import Report


def analyze(plan: Plan, hardware: Hardware | None = None, answer: Partitioned | None = None) -> Report:
    """Everything the planner knows of a plan: Shardy's answer, and what it costs one device; its time if the hardware is known.

    With XLA's own `answer` to the plan, the collectives are those, and all that follows from them does; where the hardware's compiler gave
    it, memory is that compiler's, and kernels are those it made. Raises `PartitionError` where Shardy refuses the plan.
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
    report = diagnose(report, found.planned, found.partitioned.edges)  # edits are tried on what Shardy says, and compared with that
    return with_compiled(report, answer.scheduled) if answer is not None and answer.scheduled is not None else report


def _analyze_as_run(plan: Plan, hardware: Hardware | None) -> Report | None:
    """A pipeline in step is another program, planned as that."""
    if plan.pipeline is None or plan.pipeline.engine != "spmd":
        return None
    return analyze(as_spmd_program(plan), hardware)
