"""Custom training steps on framework objects (models, optimizers), whose arrays are carried by name."""

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

    - `paths`, `leaves`: the arrays of all objects, as in `params/dense/kernel`; `join(leaves)` rebuilds the objects;
    - `step(objects, batch)`: the new leaves in the same order, and other results;
    - `init(key)`: initial leaves, if only shapes are known.
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
                f"The step takes objects with {len(self.paths)} arrays; afterwards they have {len(after)}.",
                ["create all arrays of a model before its step"],
            )
        return dict(zip(self.paths, after, strict=True)), result


def trace_objects(step: ObjectStep, batch: Any, options: TraceOptions) -> Program:
    """The program of a step. Raises `TraceError` if it changes the shape of its state or an optimizer is given."""
    if options.optimizer is not None:
        raise TraceError(
            "A custom step updates its parameters itself, so it takes no optimizer.",
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
    """The names of the step's object parameters. Raises `TraceError` if it does not take `count` objects and a batch."""
    verify_callable("step", step, "a function of objects and a batch", "write `step(model, optimizer, batch)`")
    return argument_names(step, count + 1)[:count]


def program_title(step: Callable[..., Any], options: TraceOptions) -> str:
    return options.name or name_of(step)
