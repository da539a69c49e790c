"""A report whose memory and kernels are the compiler's own: what a plan's figures settle to once it is scheduled for its hardware, and once
it is compiled, when the compiler says how long each kernel takes.

What is sent stays as XLA's partitioner has it, and what only the planner knows (which values are alive where, which kernel is whose) stays
a prediction: `Report.prediction` is the report before.
"""

from dataclasses import replace

from workbench.analysis.diagnose import over_capacity_text
from workbench.core.tensor import Role
from workbench.reports.compiled import Compiled, Scheduled
from workbench.reports.diagnostic import DOES_NOT_FIT, Diagnostic
from workbench.reports.memory import ARGUMENT_ROLES, Memory
from workbench.reports.report import Report
from workbench.reports.step_time import StepTime


def with_compiled(report: Report, compiled: Compiled | Scheduled) -> Report:
    """The report with memory and step time as `compiled` has them; unchanged where that is of a pipeline's stages, each a program."""
    if report.plan.pipeline is not None or compiled.stages:
        return report
    prediction = report.prediction
    memory = compiled_memory(prediction.memory, compiled)
    time = prediction.step_time and compiled_time(prediction.step_time, compiled)
    diagnostics = _settle_memory_diagnostic(prediction, memory, compiled.out_of_memory if isinstance(compiled, Scheduled) else "")
    return replace(prediction, memory=memory, step_time=time, diagnostics=diagnostics, compiled=compiled, predicted=prediction)


def compiled_memory(predicted: Memory, compiled: Compiled | Scheduled) -> Memory:
    """Bytes at the peak as compiled: arguments by role as they were predicted to share them, results that lie in no argument's place, and
    all else, which the compiler does not tell apart, as activations."""
    found = compiled.memory
    staying = {role: count for role in ARGUMENT_ROLES if (count := predicted.by_role.get(role, 0))}
    whole = sum(staying.values())
    by_role = {role: count * found.arguments // whole for role, count in staying.items()}
    if by_role:  # what rounding left
        by_role[next(iter(by_role))] += found.arguments - sum(by_role.values())
    by_role[Role.ACTIVATION] = found.temporary + (0 if staying else found.arguments)
    by_role[Role.OUTPUT] = max(found.outputs - found.aliased, 0)
    return replace(predicted, by_role={role: count for role in Role if (count := by_role.get(role, 0))})


def compiled_time(predicted: StepTime, compiled: Compiled | Scheduled) -> StepTime:
    """The step with its kernels as long as the compiler estimates them, where it does (XLA:TPU alone); else as they are foreseen of the
    compiler's own kernels, where it has shown them."""
    seconds = compiled.kernel_seconds if isinstance(compiled, Scheduled) else compiled.compute_seconds
    return predicted if seconds is None or not predicted.estimate else predicted.scaled(seconds / predicted.estimate)


def _settle_memory_diagnostic(prediction: Report, memory: Memory, no_room: str) -> tuple[Diagnostic, ...]:
    """Whether the plan fits is the compiler's to say: a prediction that it does not goes where it does, and one comes where it does not."""
    others = tuple(each for each in prediction.diagnostics if each.kind != DOES_NOT_FIT)
    if memory.fits and not no_room:
        return others
    known = next((each for each in prediction.diagnostics if each.kind == DOES_NOT_FIT), None)
    message = f"One device holds {over_capacity_text(memory, 'at the peak as compiled')}" if not memory.fits else f"The compiler: {no_room}"
    return (Diagnostic(DOES_NOT_FIT, "memory", message, known.edits if known else ()), *others)
