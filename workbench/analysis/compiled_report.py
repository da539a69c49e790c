"""Combine a report with memory and kernel times of the compiler, from a scheduled or compiled program.

Collectives stay those of XLA's partitioner. Details that only the planner knows (live values, kernels by scope) stay
predictions; `Report.prediction` is the report before.
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
    """Return the report with memory and step time from `compiled`; unchanged for separately compiled pipeline stages."""
    if not report.is_of_devices or compiled.stages:
        return report
    prediction = report.prediction
    memory = compiled_memory(prediction.memory, compiled)
    time = prediction.step_time and compiled_time(prediction.step_time, compiled)
    diagnostics = _settle_memory_diagnostic(prediction, memory, compiled.out_of_memory if isinstance(compiled, Scheduled) else "")
    return replace(prediction, memory=memory, step_time=time, diagnostics=diagnostics, compiled=compiled, predicted=prediction)


def compiled_memory(predicted: Memory, compiled: Compiled | Scheduled) -> Memory:
    """Return the compiled peak by role: arguments in predicted proportions, unaliased outputs, the rest activations."""
    memory = compiled.memory
    arguments = {role: count for role in ARGUMENT_ROLES if (count := predicted.by_role.get(role, 0))}
    total = sum(arguments.values())
    by_role = {role: count * memory.arguments // total for role, count in arguments.items()}
    if by_role:  # rounding errors
        by_role[next(iter(by_role))] += memory.arguments - sum(by_role.values())
    by_role[Role.ACTIVATION] = memory.temporary + (0 if arguments else memory.arguments)
    by_role[Role.OUTPUT] = max(memory.outputs - memory.aliased, 0)
    return replace(predicted, by_role={role: count for role in Role if (count := by_role.get(role, 0))})


def compiled_time(predicted: StepTime, compiled: Compiled | Scheduled) -> StepTime:
    """Return the step time with the compiler's kernel times (XLA:TPU only), or predictions for its kernels."""
    seconds = compiled.kernel_seconds if isinstance(compiled, Scheduled) else compiled.compute_seconds
    return predicted if seconds is None or not predicted.estimate else predicted.scaled(seconds / predicted.estimate)


def _settle_memory_diagnostic(prediction: Report, memory: Memory, no_room: str) -> tuple[Diagnostic, ...]:
    others = tuple(diagnostic for diagnostic in prediction.diagnostics if diagnostic.kind != DOES_NOT_FIT)
    if memory.fits and not no_room:
        return others
    known = next((diagnostic for diagnostic in prediction.diagnostics if diagnostic.kind == DOES_NOT_FIT), None)
    message = f"One device holds {over_capacity_text(memory, 'at the peak as compiled')}" if not memory.fits else f"The compiler: {no_room}"
    return (replace(known, message=message) if known else Diagnostic(DOES_NOT_FIT, "memory", message), *others)
