"""A train step of one's own on a framework's objects (models, optimisers): their arrays are carried by name from step to step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.adapters.traced_model import TraceOptions
from workbench.core.program import Program
from workbench.errors import TraceError
from workbench.tracing import trace_step
from workbench.tracing.trace_function import argument_names, name_of, verify_callable


@dataclass(frozen=True, slots=True)
class ObjectStep:
    """The user's step as a function of named arrays.

    - `paths`, `leaves`: the arrays of all objects, `params/dense/kernel`; `join(leaves)` makes the objects of them again;
    - `step(objects, batch)` returns the leaves after it, in the same order, and what else it makes;
    - `init(key)` makes the leaves, where only shapes are known.
    """

    paths: Sequence[str]
    leaves: Sequence[Any]
    join: Callable[[Sequence[Any]], Any]
    step: Callable[[Any, Any], tuple[Sequence[Any], Any]]
    init: Callable[[Any], Sequence[Any]] | None = None

    def __call__(self, state: Any, batch: Any) -> tuple[dict[str, Any], Any]:
        after, result = self.step(self.join([state[path] for path in self.paths]), batch)
        if len(after) != len(self.paths):
            raise TraceError(
                f"The step takes objects with {len(self.paths)} arrays, which have {len(after)} after it.",
                ["make all of a model's arrays before its step"],
            )
        return dict(zip(self.paths, after, strict=True)), result


def trace_objects(step: ObjectStep, batch: Any, options: TraceOptions) -> Program:
    """Raises `TraceError` for a step that changes the shape of what it carries, or is given another optimiser besides its own."""
    if options.optimizer is not None:
        raise TraceError(
            "A step of one's own updates its parameters itself; another optimiser would have nothing to do.",
            ["leave `optimizer` out", "give the model alone, and a loss"],
        )
    init = step.init
    state = dict(zip(step.paths, step.leaves, strict=True))
    return trace_step(
        step,
        state,
        batch,
        dims=options.dims,
        name=options.name,
        data=options.data,
        reference=options.reference,
        init=None if init is None else lambda key: dict(zip(step.paths, init(key), strict=True)),
    )


def object_names(step: Callable[..., Any], count: int) -> list[str]:
    """What the step calls its objects. Raises `TraceError` if it does not take so many and a batch."""
    verify_callable("step", step, "a function of objects and a batch", "write `step(model, optimizer, batch)`")
    return argument_names(step, count + 1)[:count]


def title_of(step: Callable[..., Any], options: TraceOptions) -> str:
    return options.name or name_of(step)
