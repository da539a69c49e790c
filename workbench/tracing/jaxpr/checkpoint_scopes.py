"""Recomputing named scopes: their equations are moved into a `jax.checkpoint` that keeps nothing.

Equations of one scope, and of requested scopes that stand side by side (`attention/scores` and `attention/mix`), make one part:
what goes from one to the other is not kept either.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from jax.extend import core as jex_core
from jax.extend.core import primitives

from workbench.propagation.module.kernel_scope_names import without_marks
from workbench.tracing.jaxpr.equations import variables


def is_in_scope(scope: str, path: str) -> bool:
    """Whether a path leads through a scope, `scores` or `attention/scores`.

    >>> is_in_scope("scores", "layers/0/attention/scores/dot_general"), is_in_scope("attention/mix", "attention/scores")
    (True, False)
    """
    return f"/{scope}/" in f"/{path}/"


def checkpoint_equation(inner: Any, invars: Sequence[Any], outvars: Sequence[Any], like: Any, *, policy: Any, prevent_cse: bool) -> Any:
    """`jax.checkpoint` of a jaxpr without constants, as an equation from the source line of equation `like`."""
    source = like.source_info
    return jex_core.new_jaxpr_eqn(
        list(invars),
        list(outvars),
        primitives.remat_p,
        {"jaxpr": inner, "policy": policy, "prevent_cse": prevent_cse, "differentiated": False},
        inner.effects,
        source.replace(name_stack=type(source.name_stack)()),  # the equations inside know their scopes
        like.ctx,
    )


def outline(jaxpr: Any, scopes: Iterable[str], *, prevent_cse: bool) -> Any:
    """A jaxpr with the equations of `scopes` under checkpoints."""
    parts = _find_parts(jaxpr.eqns, tuple(scopes))
    if not parts:
        return jaxpr
    part_of = {index: number for number, part in enumerate(parts) for index in part}
    readers: dict[Any, set[int]] = {}
    for index, eqn in enumerate(jaxpr.eqns):
        for atom in variables(eqn.invars):
            readers.setdefault(atom, set()).add(index)
    for atom in variables(jaxpr.outvars):
        readers.setdefault(atom, set()).add(-1)
    eqns: list[Any] = []
    waiting: list[Any] = []  # equations between those of a part: those that read from it
    made: set[Any] = set()
    for index, eqn in enumerate(jaxpr.eqns):
        number = part_of.get(index)
        if number is None:
            depends = any(atom in made for atom in variables(eqn.invars))
            made.update(eqn.outvars if depends else ())
            (waiting if depends else eqns).append(eqn)
            continue
        made.update(eqn.outvars)
        if index == parts[number][-1]:
            eqns += [_make_checkpoint(jaxpr, parts[number], readers, prevent_cse=prevent_cse), *waiting]
            waiting, made = [], set()
    return jaxpr.replace(eqns=eqns)


def _find_prefix(eqn: Any, scopes: Sequence[str]) -> str | None:
    """The path in front of the scope an equation is in: equations of one layer have it in common; `None` outside all scopes."""
    path = f"/{without_marks(str(eqn.source_info.name_stack))}/"
    return next((path.partition(f"/{scope}/")[0] for scope in scopes if is_in_scope(scope, path.strip("/"))), None)


def _find_parts(eqns: Sequence[Any], scopes: Sequence[str]) -> list[list[int]]:
    """Indices of the equations of each part. One ends where the next equation of the scopes is of another layer, or reads what was made
    from the part's results outside it."""
    parts: list[list[int]] = []
    before: str | None = None
    inside: set[Any] = set()
    after: set[Any] = set()
    for index, eqn in enumerate(eqns):
        prefix, reads = _find_prefix(eqn, scopes), variables(eqn.invars)
        if prefix is None:
            after.update(eqn.outvars if any(atom in inside or atom in after for atom in reads) else ())
            continue
        if not parts or prefix != before or any(atom in after for atom in reads):
            parts.append([])
            before, inside, after = prefix, set(), set()
        parts[-1].append(index)
        inside.update(eqn.outvars)
    return parts


def _make_checkpoint(jaxpr: Any, part: Sequence[int], readers: dict[Any, set[int]], *, prevent_cse: bool) -> Any:
    eqns = [jaxpr.eqns[index] for index in part]
    made = {var: None for eqn in eqns for var in eqn.outvars}
    read = dict.fromkeys(atom for eqn in eqns for atom in variables(eqn.invars) if atom not in made)
    results = [var for var in made if readers.get(var, set()) - set(part)]
    effects = set().union(*(eqn.effects for eqn in eqns))
    inner = jaxpr.replace(constvars=(), invars=list(read), outvars=results, eqns=eqns, effects=effects)
    return checkpoint_equation(inner, list(read), results, eqns[0], policy=None, prevent_cse=prevent_cse)
