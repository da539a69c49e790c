"""A report with the compiler's own memory and kernels: the figures of a plan once it is scheduled for its hardware, and once it is
compiled, when the compiler estimates the time of each kernel.

Collectives stay as XLA's partitioner has them, and what only the planner knows (which values are alive where, which kernel belongs to what)
stays a prediction: `Report.prediction` is the report before.
"""

from dataclasses import replace

from workbench.analysis.diagnose import over_capacity_text
from workbench.core.tensor import Role
from workbench.reports.compiled import Compiled, Scheduled
from workbench.reports.device_memory import ARGUMENT_ROLES, Memory
from workbench.reports.diagnostic import DOES_NOT_FIT, Diagnostic
from workbench.reports.report import Report
from workbench.reports.step_time import StepTime


def with_compiled(report: Report, compiled: Compiled | Scheduled) -> Report:
    """The report with memory and step time from `compiled`; unchanged where that is of a pipeline's stages, each a program of its own."""
    if not report.is_of_devices or compiled.stages:
        return report
    prediction = report.prediction
    memory = compiled_memory(prediction.memory, compiled)
    time = prediction.step_time and compiled_time(prediction.step_time, compiled)
    diagnostics = _settle_memory_diagnostic(prediction, memory, compiled.out_of_memory if isinstance(compiled, Scheduled) else "")
    return replace(prediction, memory=memory, step_time=time, diagnostics=diagnostics, compiled=compiled, predicted=prediction)


def compiled_memory(predicted: Memory, compiled: Compiled | Scheduled) -> Memory:
    """Bytes at the peak as compiled: arguments by role in the predicted proportions, results that share no argument's buffer, and all else,
    which the compiler does not break down, as activations."""
    found = compiled.memory
    staying = {role: count for role in ARGUMENT_ROLES if (count := predicted.by_role.get(role, 0))}
    whole = sum(staying.values())
    by_role = {role: count * found.arguments // whole for role, count in staying.items()}
    if by_role:  # rounding errors
        by_role[next(iter(by_role))] += found.arguments - sum(by_role.values())
    by_role[Role.ACTIVATION] = found.temporary + (0 if staying else found.arguments)
    by_role[Role.OUTPUT] = max(found.outputs - found.aliased, 0)
    return replace(predicted, by_role={role: count for role in Role if (count := by_role.get(role, 0))})


def compiled_time(predicted: StepTime, compiled: Compiled | Scheduled) -> StepTime:
    """The step with the compiler's estimates of its kernels, where it gives any (XLA:TPU alone); else as the cost model predicts them for
    the compiler's own kernels, where these are known."""
    seconds = compiled.kernel_seconds if isinstance(compiled, Scheduled) else compiled.compute_seconds
    return predicted if seconds is None or not predicted.estimate else predicted.scaled(seconds / predicted.estimate)


def _settle_memory_diagnostic(prediction: Report, memory: Memory, no_room: str) -> tuple[Diagnostic, ...]:
    """Renew the diagnostic on memory: whether the plan fits is for the compiler to say, so it is removed or added accordingly."""
    others = tuple(each for each in prediction.diagnostics if each.kind != DOES_NOT_FIT)
    if memory.fits and not no_room:
        return others
    known = next((each for each in prediction.diagnostics if each.kind == DOES_NOT_FIT), None)
    message = f"One device holds {over_capacity_text(memory, 'at the peak as compiled')}" if not memory.fits else f"The compiler: {no_room}"
    return (replace(known, message=message) if known else Diagnostic(DOES_NOT_FIT, "memory", message), *others)
