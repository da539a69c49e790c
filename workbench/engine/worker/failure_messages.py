"""Errors of runs and compilations in the user's terms: what happened, at which stage, what to try. Never a traceback."""

import re
import signal
import traceback

from workbench.core.program import Program
from workbench.core.public_error_text import last_line, process_end_text
from workbench.engine.worker.job_payload import WorkerJob
from workbench.errors import EngineError, WorkbenchError, opening_text
from workbench.multimodel.fleet import Fleet
from workbench.plan.plan import Plan
from workbench.propagation.module.source_location import is_library
from workbench.units import format_bytes, format_seconds

_OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory", "bad_alloc", "Cannot allocate memory", "MemoryError")
_SMALLER = (
    "shard a large dimension over another mesh axis",
    "recompute layers in the backward pass (`jax.checkpoint`)",
    "make the batch smaller",
    "choose more devices, or devices with more memory",
)
_QUICKER = {
    "run": ("run fewer steps", "run a smaller model"),
    "compile": ("scan the layers, so that only one is compiled", "compile a smaller model"),
    "fleet": ("set a checkpoint folder to continue from its checkpoint", "train fewer models, or for fewer epochs"),
    "timing": ("time fewer models",),
    "search": ("search a smaller space",),
}
_LESS_MEMORY = ("shard a large dimension over another mesh axis", "make the batch smaller", "run on devices with more memory")
_LESS_MEMORY_TOGETHER = (
    "lower the memory budget to get smaller shards",
    'spill to disk (`spill="disk"` and a folder)',
    "train fewer models at once",
    "make the mini-batches smaller",
)

_INTERPRETED = "Only interpret mode is supported on CPU"
_TOO_LARGE = ("RESOURCE_EXHAUSTED", "Ran out of memory")
_PREAMBLE = re.compile(r"^(?:RESOURCE_EXHAUSTED|XLA:TPU compile permanent error|E\d{4}: \w+)[:.]\s*")
_TABLE = re.compile(r"\n\s*\n|\n\s*Total hbm usage|\s+HLO module: ")  # the compiler's listings after its memory sum


class CancelledError(EngineError):
    """The job was cancelled."""


def in_user_terms(error: BaseException, subject: Plan | Fleet, stage: str) -> WorkbenchError:
    """Return the `WorkbenchError` to raise for any exception that stopped the run of a plan or the training of a fleet."""
    if isinstance(error, WorkbenchError):
        return error
    text = str(error).strip()
    if isinstance(error, MemoryError) or any(sign in text for sign in _OUT_OF_MEMORY):
        return out_of_memory(subject, stage, text)
    if _INTERPRETED in text:
        return EngineError(
            f"{subject.name} has a Pallas kernel, which CPUs can only interpret.",
            [
                "write `pl.pallas_call(..., interpret=True)` for a run here",
                "compile the plan for the hardware of the kernel, `plan.compile()`",
                "run it there",
            ],
        )
    location = _user_line(error)
    detail = f"{type(error).__name__}: {opening_text(text)}" if text else type(error).__name__
    noun = "run" if isinstance(subject, Plan) else "training"
    return EngineError(
        f"The {noun} of {subject.name} stopped while {stage}{location}: {detail}",
        ["fix the function and run again"] if location else (),
        text,
    )


def compilation_failed(error: BaseException, plan: Plan, target: str, stage: str) -> WorkbenchError:
    """Return the `WorkbenchError` to raise for any exception that stopped a compilation."""
    if isinstance(error, WorkbenchError):
        return error
    text = str(error).strip()
    if stage == "compiling" and any(sign in text for sign in _TOO_LARGE):
        return EngineError(f"{plan.name} does not fit on {target}: {_arithmetic(text)}.", _SMALLER)
    location = _user_line(error)
    detail = f"{type(error).__name__}: {opening_text(text)}" if text else type(error).__name__
    return EngineError(
        f"The compilation of {plan.name} for {target} stopped while {stage}{location}: {detail}",
        ["fix the function and compile again"] if location else ["try a simpler layout", "compile for another target"],
        text,
    )


def _arithmetic(text: str) -> str:
    """Extract the compiler's memory sum, `Used 20.1G of 15.5G hbm. Exceeded ...`, without its buffer lists."""
    while preamble := _PREAMBLE.match(text):
        text = text[preamble.end() :]
    first = " ".join(_TABLE.split(text, maxsplit=1)[0].split())[:300].removesuffix(".")
    return first[:1].lower() + first[1:]


def out_of_memory(subject: Plan | Fleet, stage: str, said: str = "") -> EngineError:
    """Return the error for insufficient device memory, with the state size, which is known without a report."""
    detail = f" ({opening_text(said)})" if said else ""
    if isinstance(subject, Plan):
        return EngineError(f"Out of memory while {stage}{detail}. {_arguments_text(subject)}", _LESS_MEMORY)
    state = sum(_state_bytes(model.program) for model in subject.models)
    return EngineError(
        f"Out of memory while {stage}{detail}. The state of {subject.name} is {format_bytes(state)} in total, in host memory.",
        _LESS_MEMORY_TOGETHER,
    )


def _state_bytes(program: Program) -> int:
    return sum(program.arguments[i].bytes for i in program.state)


def _arguments_text(plan: Plan) -> str:
    argument_bytes = sum(
        tensor.bytes // (plan.mesh.size // sharding.replicas(plan.mesh))
        for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True)
    )
    return f"The arguments alone are {format_bytes(argument_bytes)} on each of {plan.mesh.size} devices."


def death(job: WorkerJob, stage: str, return_code: int, last_words: str) -> EngineError:
    """Return the error for a worker process that ended without a result; `last_words` is its standard error."""
    name = job.subject.name
    if any(sign in last_words for sign in _OUT_OF_MEMORY):
        return out_of_memory(job.subject, stage)
    if return_code == -signal.SIGKILL:
        return EngineError(
            f"Something killed the {job.noun} of {name} while {stage} (SIGKILL): Linux does this when memory runs "
            "out, or a person did it by "
            f"hand{_sharing(job)}",
            (_again(job), *_more_room(job)),
        )
    how = process_end_text(return_code)
    last_output = f" Last output: {words}" if (words := last_line(last_words)) else ""
    return EngineError(f"The worker process of {name} died while {stage}, {how}.{last_output}", _another_try(job))


def _sharing(job: WorkerJob) -> str:
    if job.kind == "run" and isinstance(job.subject, Plan):
        return f". {job.devices} devices of {job.subject.mesh} share the machine's memory if they are virtual."
    return "."


def _more_room(job: WorkerJob) -> tuple[str, ...]:
    if isinstance(job.subject, Fleet):
        return _LESS_MEMORY_TOGETHER
    if job.kind == "search":
        return ("search a smaller space", "search on a machine with more memory")
    return _LESS_MEMORY if job.kind == "run" else ("compile on a machine with more memory", "scan the layers, so that only one is compiled")


def _again(job: WorkerJob) -> str:
    if isinstance(job.subject, Plan):
        return f"{job.kind} again"
    if job.kind == "timing":
        return "time them again"
    return "run it again to continue from its checkpoint" if job.subject.folder else "set a checkpoint folder to resume"


def _another_try(job: WorkerJob) -> tuple[str, ...]:
    if isinstance(job.subject, Fleet):
        return _again(job), f"run `{job.here}` here to reproduce the crash"
    if job.kind == "search":
        return _again(job), f"run `{job.here}` here to reproduce the crash"
    there = f"run `{job.here}` here to reproduce the crash" if job.kind == "run" else "compile for another target"
    return _again(job), "try a simpler layout: the compiler may have crashed", there


def too_slow(job: WorkerJob, stage: str, time_limit: float) -> EngineError:
    return EngineError(
        f"The {job.noun} of {job.subject.name} passed its time limit of {format_seconds(time_limit)} while {stage}.",
        ["raise the time limit", *_QUICKER[job.kind]],
    )


def _user_line(error: BaseException) -> str:
    """Return ` in `feed` (data.py:12)`, the innermost line outside this package and libraries; empty if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not is_library(frame.filename):
            return f" in `{frame.name}` ({frame.filename.rsplit('/', 1)[-1]}:{frame.lineno})"
    return ""
