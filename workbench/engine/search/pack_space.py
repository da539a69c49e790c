"""A search space for another process: programs by value, without the arrays they were given, and JAX's settings."""

import pickle
from dataclasses import replace

from workbench.core.program import Program
from workbench.engine.worker.job_payload import jax_settings, sendable, use_jax_settings
from workbench.search.evaluator import Evaluator
from workbench.search.search_space import SearchSpace


def pack_space(space: SearchSpace) -> bytes:
    """The bytes of a space. Raises `EngineError` if a function of its program cannot be sent."""
    start = space.start.updated(program=_without_arrays(space.start.program))
    sent = replace(space, start=start, programs=tuple((traced, _without_arrays(program)) for traced, program in space.programs))
    return pickle.dumps((jax_settings(), sendable(sent, space.start.name, "search in this process, with workers=0")))


def unpack_evaluator(content: bytes) -> Evaluator:
    """The evaluator of a packed space, in the other process."""
    settings, body = pickle.loads(content)  # noqa: S301 - our own parent wrote it
    use_jax_settings(settings)
    return Evaluator(pickle.loads(body))  # noqa: S301 - likewise


def _without_arrays(program: Program) -> Program:
    """Planning reads shapes alone."""
    return replace(program, step=replace(program.step, given=(), given_indices=()))
