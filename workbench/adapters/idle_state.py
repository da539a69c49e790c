"""Which of a model's state a loss neither reads nor changes: it need not be carried, and a program without state has more layouts."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from workbench.tracing.jaxpr.equations import select_needed, variables


def idle_leaves(call: Callable[..., tuple[Any, Any]], params: Any, state: Any, batch: Any) -> list[bool]:
    """For each leaf of `state`, whether `call(params, state, batch) -> (result, new state)` returns it as it was and never reads it."""
    closed, (result, _) = jax.make_jaxpr(partial(call), return_shape=True)(params, state, batch)
    before, made = len(jax.tree.leaves(params)), len(jax.tree.leaves(result))
    count = len(jax.tree.leaves(state))
    given, after = closed.jaxpr.invars[before : before + count], closed.jaxpr.outvars[made : made + count]
    reading = {var for eqn in select_needed(closed.jaxpr.eqns, variables(closed.jaxpr.outvars)) for var in variables(eqn.invars)}
    reading |= set(variables(closed.jaxpr.outvars[:made]))
    return [var is new and var not in reading for var, new in zip(given, after, strict=True)]
