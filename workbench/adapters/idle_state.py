"""Which of a model's state a loss neither reads nor changes: it need not be carried, and a program without state has more layouts."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax.interpreters import partial_eval


def idle_leaves(call: Callable[..., tuple[Any, Any]], params: Any, state: Any, batch: Any) -> list[bool]:
    """For each leaf of `state`, whether `call(params, state, batch) -> (result, new state)` returns it as it was and never reads it.

    A loop that only hands it on, as Haiku's scans do with keys, does not read it.
    """
    closed, (result, _) = jax.make_jaxpr(partial(call), return_shape=True)(params, state, batch)
    before, made, count = (len(jax.tree.leaves(each)) for each in (params, result, state))
    given, after = closed.jaxpr.invars[before : before + count], closed.jaxpr.outvars[made : made + count]
    stays = [var is new for var, new in zip(given, after, strict=True)]
    _, is_read = partial_eval.dce_jaxpr(closed.jaxpr, [*[True] * made, *(not each for each in stays)])
    return [each and not read for each, read in zip(stays, is_read[before : before + count], strict=True)]
