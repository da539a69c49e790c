"""A remat policy applied to a function that is unaware of it: its jaxpr with layers wrapped anew, before it is differentiated.

Layers are what `layer_marks.layer` marks; where a function marks nothing, its outermost `jax.checkpoint`s (but a hand-written kernel's);
where it has none, the bodies of its outermost scans. Equations are moved, never evaluated again: named scopes and source lines stay.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.extend.core import primitives

from workbench.core.remat import ALL_LAYERS, AS_TRACED, Remat
from workbench.errors import RematError, unknown_name
from workbench.propagation import readable_path
from workbench.propagation.module.source_location import marked_kernel, without_marks
from workbench.tracing.jaxpr.choose_layers import SomeLayers, choose_layers
from workbench.tracing.jaxpr.equations import CALLS, equations_below, jaxprs_in, rewrite_inside, substituted, variables
from workbench.tracing.jaxpr.mark_kept_dots import KEPT_RESULT, mark_kept_dots
from workbench.tracing.layer_marks import keep_everything, policy_of

_HOLDERS = (*CALLS, "scan", "while", "cond")  # what may hold layers
_WITHOUT_LAYERS = ("as traced", "none", "recompute")  # policies that need none


class Rematerialized:
    """`fn`, whose derivative keeps and recomputes what `remat` says; its values are unchanged.

    `traced` is the jaxpr of `fn`, if that was just made, and the shapes of its result: the first call with such arguments needs no other
    trace, and lets this one go, as it is large.
    """

    def __init__(self, fn: Callable[..., Any], remat: Remat, traced: tuple[Any, Any] | None = None) -> None:
        self._fn, self._remat = fn, remat
        self._first = [traced] if traced else []

    def __call__(self, *args: Any) -> Any:
        closed, shape = self.rewrite(*args)
        chosen = closed if self._remat.layers == ALL_LAYERS else choose_layers(closed)
        return jax.tree.unflatten(jax.tree.structure(shape), jex_core.jaxpr_as_fun(chosen)(*jax.tree.leaves(args)))

    def rewrite(self, *args: Any) -> tuple[Any, Any]:
        """The rewritten jaxpr for these arguments, and the shapes of its result. Which layers the policy is for is not chosen yet."""
        fits = bool(self._first) and [jax.typeof(each) for each in jax.tree.leaves(args)] == self._first[0][0].in_avals
        closed, shape = self._first.pop() if fits else jax.make_jaxpr(self._fn, return_shape=True)(*args)
        return rewrite(closed, self._remat), shape

    def __reduce__(self) -> tuple[Any, ...]:
        return Rematerialized, (self._fn, self._remat)


def rewrite(closed: Any, remat: Remat) -> Any:
    """The jaxpr of a function, with the policy `remat` on its layers; where that is for a part of them, it is `SomeLayers` on all."""
    found = layers_in(closed)
    scans_are_layers = not found.layers and remat.policy not in _WITHOUT_LAYERS
    rewriter = _RematRewriter(remat, marked=found.marked, scans_are_layers=scans_are_layers)
    return jex_core.ClosedJaxpr(rewriter.rewrite_jaxpr(closed.jaxpr, in_loop=False), closed.consts)


@dataclass(slots=True)
class RematScopes:
    """What a remat policy can refer to in a traced function; `scopes` are the paths of its named scopes."""

    layers: int = 0
    scans: int = 0
    marked: bool = False
    names: dict[str, None] = field(default_factory=dict)
    scopes: dict[str, None] = field(default_factory=dict)


def layers_in(closed: Any) -> RematScopes:
    """Read a function's jaxpr."""
    marked = _has_marks(closed.jaxpr)
    found = RematScopes(marked=marked)
    _collect_scopes(closed.jaxpr, found, "")
    return found


def verify_remat(remat: Remat, found: RematScopes, name: str) -> None:
    """Raises `RematError` if the function has no layers for the policy, or not the names it uses."""
    if remat.policy == "recompute":
        words = dict.fromkeys(word for path in found.scopes for word in path.split("/"))
        for scope in remat.names:
            if not any(is_in_scope(scope, path) for path in found.scopes):
                raise RematError(*unknown_name("named scope", scope, words))
    elif remat.policy not in _WITHOUT_LAYERS and not found.layers + found.scans:
        raise RematError(
            f"`{name}` has no layers for remat `{remat}`.",
            ["decorate its layer function with `@wb.layer`", "wrap it in `jax.checkpoint`", "scan over its layers"],
        )
    else:
        for each in (*remat.names, *remat.offloaded):
            if each not in found.names:
                message, ways_out = unknown_name("named value", each, found.names)
                raise RematError(message, [*ways_out, f'name one in a layer: `x = checkpoint_name(x, "{each[:80]}")`'])


def _collect_scopes(jaxpr: Any, found: RematScopes, prefix: str) -> None:
    for eqn in jaxpr.eqns:
        scope = readable_path(f"jit(loss)/{eqn.source_info.name_stack}")
        path = "/".join(word for word in (prefix, scope) if word)
        if path:
            found.scopes[path] = None
        found.layers += _is_layer(eqn, marked=found.marked)
        found.scans += eqn.primitive is primitives.scan_p
        if eqn.primitive is primitives.name_p and eqn.params["name"] != KEPT_RESULT:
            found.names[eqn.params["name"]] = None
        for inner in jaxprs_in(eqn):
            _collect_scopes(inner, found, path)


def _has_marks(jaxpr: Any) -> bool:
    return any(_is_checkpoint(eqn) and eqn.params["policy"] is keep_everything for eqn, _ in equations_below(jaxpr))


def _is_checkpoint(eqn: Any) -> bool:
    return eqn.primitive is primitives.remat_p and not eqn.params["differentiated"]


def _is_layer(eqn: Any, *, marked: bool) -> bool:
    if not _is_checkpoint(eqn):
        return False
    return eqn.params["policy"] is keep_everything if marked else marked_kernel(str(eqn.source_info.name_stack)) is None


@dataclass(frozen=True, slots=True)
class _RematRewriter:
    """A walk from the outside to the layers; `marked` says how it recognises one."""

    remat: Remat
    marked: bool
    scans_are_layers: bool = False

    def rewrite_jaxpr(self, jaxpr: Any, *, in_loop: bool) -> Any:
        eqns, outvars = self.rewrite_block(jaxpr, {}, None, in_loop=in_loop)
        rewritten = jaxpr.replace(eqns=eqns, outvars=outvars)
        return outline(rewritten, self.remat.names, prevent_cse=not in_loop) if self.remat.policy == "recompute" else rewritten

    def rewrite_block(self, jaxpr: Any, known: dict[Any, Any], stack: Any, *, in_loop: bool) -> tuple[list[Any], list[Any]]:
        """The equations of a jaxpr and its results.

        With a `stack` of scopes they replace the checkpoint that stood there: `known` are its arguments, and its variables
        are made anew, for JAX shares one jaxpr among layers that are alike.
        """
        found: list[Any] = []

        for each in jaxpr.eqns:
            eqn = each.replace(invars=substituted(each.invars, known))
            if stack is not None:
                eqn = eqn.replace(source_info=eqn.source_info.replace(name_stack=stack + eqn.source_info.name_stack))
            if self._is_dissolved(eqn):
                eqns, results = _INSIDE.rewrite_block(
                    eqn.params["jaxpr"],
                    dict(zip(eqn.params["jaxpr"].invars, eqn.invars, strict=True)),
                    eqn.source_info.name_stack,
                    in_loop=in_loop,
                )
                found += eqns
                known.update(zip(eqn.outvars, results, strict=True))
                continue
            if stack is not None:
                outvars = [jex_core.Var(var.aval) for var in eqn.outvars]
                known.update(zip(eqn.outvars, outvars, strict=True))
                eqn = eqn.replace(outvars=outvars)
            found.append(self._rewrite_equation(eqn, in_loop=in_loop))
        return found, substituted(jaxpr.outvars, known)

    def _is_dissolved(self, eqn: Any) -> bool:
        """Whether a layer is merged into what is around it: a mark without a policy, or any layer whose values are all kept."""
        keeps = self.remat.policy in ("none", "recompute") or (self.remat == AS_TRACED and self.marked)
        return keeps and _is_layer(eqn, marked=self.marked)

    def _rewrite_equation(self, eqn: Any, *, in_loop: bool) -> Any:
        if _is_checkpoint(eqn):
            if self.remat != AS_TRACED and _is_layer(eqn, marked=self.marked):
                return self._rewrite_layer(eqn, in_loop=in_loop)
            return rewrite_inside(eqn, partial(self.rewrite_jaxpr, in_loop=in_loop))
        if eqn.primitive.name not in _HOLDERS:
            return eqn
        if self.scans_are_layers and eqn.primitive is primitives.scan_p:
            return eqn.replace(params={**eqn.params, "jaxpr": _as_layer(eqn.params["jaxpr"], eqn, self.remat)})
        looping = in_loop or eqn.primitive.name in ("scan", "while")
        return rewrite_inside(eqn, partial(self.rewrite_jaxpr, in_loop=looping))

    def _rewrite_layer(self, eqn: Any, *, in_loop: bool) -> Any:
        """A layer under the policy. In a loop nothing needs to keep XLA from merging what is computed twice: the forward and the backward
        loop are two loops."""
        inner = _INSIDE.rewrite_jaxpr(eqn.params["jaxpr"], in_loop=in_loop)
        barrier = not in_loop if eqn.params["policy"] is keep_everything else eqn.params["prevent_cse"]
        params = {"jaxpr": _mark_kept(inner, self.remat), "policy": _layer_policy(self.remat), "prevent_cse": barrier}
        return eqn.replace(params={**eqn.params, **params})


_INSIDE = _RematRewriter(AS_TRACED, marked=True)
"""What happens within a layer: marks go, the function's own checkpoints stay."""


def _layer_policy(remat: Remat) -> Callable[..., Any] | None:
    return policy_of(remat) if remat.layers == ALL_LAYERS else SomeLayers(policy_of(remat), *remat.layers)


def _mark_kept(layer: Any, remat: Remat) -> Any:
    """A layer's jaxpr, in which what `dots_every` keeps has a name."""
    return mark_kept_dots(layer, remat.every) if remat.every else layer


def _as_layer(body: Any, scan: Any, remat: Remat) -> Any:
    """The body of a scan as one layer."""
    jaxpr = body.jaxpr
    arguments = [*jaxpr.constvars, *jaxpr.invars]
    results = [jex_core.Var(atom.aval) for atom in jaxpr.outvars]
    inner = _mark_kept(jaxpr.replace(constvars=(), invars=arguments), remat)
    eqn = checkpoint_equation(inner, arguments, results, scan, policy=_layer_policy(remat), prevent_cse=False)
    return jex_core.ClosedJaxpr(jaxpr.replace(eqns=[eqn], outvars=results), body.consts)


# Recomputing named scopes: their equations are moved into a `jax.checkpoint` that keeps nothing.
#
# Equations of one scope, and of requested scopes that stand side by side (`attention/scores` and `attention/mix`), make one part: what goes
# from one to the other is not kept either.


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
