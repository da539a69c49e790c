"""`analyze`: from a plan to a report. Pure: the same plan gives the same report; nothing executes, nothing is traced again."""

from workbench.analysis.compiled_report import with_compiled
from workbench.analysis.diagnose import diagnose
from workbench.analysis.one_program_report import one_program_report
from workbench.analysis.report_details import PlannedDetails
from workbench.cost.estimate import estimate
from workbench.errors import PipelineError
from workbench.hardware.hardware import Hardware
from workbench.pipeline.spmd_pipeline_plan import as_spmd_program
from workbench.plan.plan import Plan
from workbench.reports.partitioned import Partitioned
from workbench.reports.report import Report


def analyze(plan: Plan, hardware: Hardware | None = None, answer: Partitioned | None = None) -> Report:
    """Everything the planner knows of a plan: Shardy's propagation, and its cost on one device; the step time if the hardware is known.

    With the partitioner's `answer` to the plan, its collectives replace the planned ones, and so do all figures that depend on them; where
    it came from the hardware's own compiler, memory and kernels are also that compiler's. A pipeline of `engine:spmd` is another program,
    and is planned as that; it has no answer. Raises `PartitionError` where Shardy refuses the plan.
    """
    if plan.pipeline is None or plan.pipeline.engine != "spmd":
        return _analyze(plan, hardware, answer)
    try:
        run = as_spmd_program(plan)
    except PipelineError:  # its notes say why
        return _analyze(plan, hardware, None)
    return one_program_report(plan, _analyze(run, hardware, None), lambda: _analyze(plan, hardware, None))


def _analyze(plan: Plan, hardware: Hardware | None, answer: Partitioned | None) -> Report:
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
        details=PlannedDetails(found, analyze),
    )
    report = diagnose(report, found.planned, found.partitioned.edges)  # edits are tried on Shardy's propagation, and compared with that
    return with_compiled(report, answer.scheduled) if answer is not None and answer.scheduled is not None else report
