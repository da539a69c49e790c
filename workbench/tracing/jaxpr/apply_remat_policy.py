"""Applies a remat policy to a function that is unaware of it, by rewrapping the layers of its jaxpr before
differentiation.

Layers are marked by `layer_marks.layer`; without marks, they are the outermost `jax.checkpoint`s (except those of a
hand-written kernel); without any, the bodies of the outermost scans. Equations are moved, never evaluated again: named
scopes and source lines stay.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.extend.core import primitives

from workbench.core.remat import ALL_LAYERS, AS_TRACED, EVERY, PLAIN, Remat
from workbench.errors import RematError, unknown_name
from workbench.propagation import readable_path
from workbench.propagation.module.source_location import marked_kernel, without_marks
from workbench.tracing.jaxpr.choose_layers import SomeLayers, choose_layers
from workbench.tracing.jaxpr.equations import CALLS, equations_below, jaxprs_in, rewrite_inside, substituted, variables
from workbench.tracing.layer_marks import KEPT_RESULT, keep_everything, mark_kept_dots, policy_of

_HOLDERS = (*CALLS, "scan", "while", "cond")  # what may hold layers
_WITHOUT_LAYERS = ("as traced", "none", "recompute")  # policies that need none


class Rematerialized:
    """`fn` with the remat policy `remat` for its derivative; its values are unchanged.

    `traced`: an existing jaxpr of `fn` with the shapes of its result, which saves the first call a trace, and is then
    released, as it is large.
    """

    def __init__(self, fn: Callable[..., Any], remat: Remat, traced: tuple[Any, Any] | None = None) -> None:
        self._fn, self._remat = fn, remat
        self._first = [traced] if traced else []

    def __call__(self, *args: Any) -> Any:
        closed, shape = self.rewrite(*args)
        chosen = closed if self._remat.layers == ALL_LAYERS else choose_layers(closed)
        return jax.tree.unflatten(jax.tree.structure(shape), jex_core.jaxpr_as_fun(chosen)(*jax.tree.leaves(args)))

    def rewrite(self, *args: Any) -> tuple[Any, Any]:
        """The rewritten jaxpr for these arguments, and the shapes of its result. Partial policies are not resolved yet."""
        is_reusable = bool(self._first) and [jax.typeof(leaf) for leaf in jax.tree.leaves(args)] == self._first[0][0].in_avals
        closed, shape = self._first.pop() if is_reusable else jax.make_jaxpr(self._fn, return_shape=True)(*args)
        return rewrite(closed, self._remat), shape

    def __reduce__(self) -> tuple[Any, ...]:
        return Rematerialized, (self._fn, self._remat)


def rewrite(closed: Any, remat: Remat) -> Any:
    """A function's jaxpr with the policy `remat` on its layers, as `SomeLayers` if it is for a part of them."""
    scopes = layers_in(closed)
    scans_are_layers = not scopes.layers and remat.policy not in _WITHOUT_LAYERS
    rewriter = _RematRewriter(remat, marked=scopes.marked, scans_are_layers=scans_are_layers)
    return jex_core.ClosedJaxpr(rewriter.rewrite_jaxpr(closed.jaxpr, in_loop=False), closed.consts)


@dataclass(slots=True)
class RematScopes:
    """Names a remat policy can refer to in a traced function; `scopes` are the paths of its named scopes."""

    layers: int = 0
    scans: int = 0
    marked: bool = False
    names: dict[str, None] = field(default_factory=dict)
    scopes: dict[str, None] = field(default_factory=dict)

    @property
    def choices(self) -> tuple[str, ...]:
        """The usual policies that the function allows; without layers, whole scopes may be recomputed."""
        if self.layers + self.scans:
            return (*PLAIN, f"{EVERY}:2", "full layers:1/2", *(f"save:{name}" for name in self.names))
        outer = dict.fromkeys(path.partition("/")[0] for path in self.scopes)
        return ("as traced", "none", *(f"recompute:{scope}" for scope in outer))


def layers_in(closed: Any) -> RematScopes:
    """The layers, names and scopes in a function's jaxpr."""
    marked = any(_is_checkpoint(eqn) and eqn.params["policy"] is keep_everything for eqn, _ in equations_below(closed.jaxpr))
    scopes = RematScopes(marked=marked)
    _collect_scopes(closed.jaxpr, scopes, "")
    return scopes


def verify_remat(remat: Remat, found: RematScopes, name: str) -> None:
    """Raise `RematError` if the function has no layers for the policy, or lacks names it uses."""
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
        for value_name in (*remat.names, *remat.offloaded):
            if value_name not in found.names:
                message, ways_out = unknown_name("named value", value_name, found.names)
                raise RematError(message, [*ways_out, f'name one in a layer: `x = checkpoint_name(x, "{value_name[:80]}")`'])


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


def _is_checkpoint(eqn: Any) -> bool:
    return eqn.primitive is primitives.remat_p and not eqn.params["differentiated"]


def _is_layer(eqn: Any, *, marked: bool) -> bool:
    if not _is_checkpoint(eqn):
        return False
    return eqn.params["policy"] is keep_everything if marked else marked_kernel(str(eqn.source_info.name_stack)) is None


@dataclass(frozen=True, slots=True)
class _RematRewriter:
    """Walks from the outside to the layers; `marked` selects how it recognizes a layer."""

    remat: Remat
    marked: bool
    scans_are_layers: bool = False

    def rewrite_jaxpr(self, jaxpr: Any, *, in_loop: bool) -> Any:
        eqns, outvars = self.rewrite_block(jaxpr, {}, None, in_loop=in_loop)
        rewritten = jaxpr.replace(eqns=eqns, outvars=outvars)
        return outline(rewritten, self.remat.names, prevent_cse=not in_loop) if self.remat.policy == "recompute" else rewritten

    def rewrite_block(self, jaxpr: Any, known: dict[Any, Any], stack: Any, *, in_loop: bool) -> tuple[list[Any], list[Any]]:
        """The equations of a jaxpr and its results.

        With a `stack` of scopes they replace the checkpoint around them: `known` are its arguments, and variables are
        renewed, as JAX shares one jaxpr among identical layers.
        """
        new_eqns: list[Any] = []

        for old_eqn in jaxpr.eqns:
            eqn = old_eqn.replace(invars=substituted(old_eqn.invars, known))
            if stack is not None:
                eqn = eqn.replace(source_info=eqn.source_info.replace(name_stack=stack + eqn.source_info.name_stack))
            if self._is_dissolved(eqn):
                eqns, results = _INSIDE.rewrite_block(
                    eqn.params["jaxpr"],
                    dict(zip(eqn.params["jaxpr"].invars, eqn.invars, strict=True)),
                    eqn.source_info.name_stack,
                    in_loop=in_loop,
                )
                new_eqns += eqns
                known.update(zip(eqn.outvars, results, strict=True))
                continue
            if stack is not None:
                outvars = [jex_core.Var(var.aval) for var in eqn.outvars]
                known.update(zip(eqn.outvars, outvars, strict=True))
                eqn = eqn.replace(outvars=outvars)
            new_eqns.append(self._rewrite_equation(eqn, in_loop=in_loop))
        return new_eqns, substituted(jaxpr.outvars, known)

    def _is_dissolved(self, eqn: Any) -> bool:
        """Return whether a layer is merged into its surroundings: a mark without a policy, or a layer that keeps all."""
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
        """Put the policy on a layer; loops need no CSE barrier, as forward and backward pass are separate loops."""
        inner = _INSIDE.rewrite_jaxpr(eqn.params["jaxpr"], in_loop=in_loop)
        barrier = not in_loop if eqn.params["policy"] is keep_everything else eqn.params["prevent_cse"]
        params = {"jaxpr": _mark_kept(inner, self.remat), "policy": _layer_policy(self.remat), "prevent_cse": barrier}
        return eqn.replace(params={**eqn.params, **params})


_INSIDE = _RematRewriter(AS_TRACED, marked=True)
"""Rewrites the inside of a layer: removes marks, and keeps the function's own checkpoints."""


def _layer_policy(remat: Remat) -> Callable[..., Any] | None:
    return policy_of(remat) if remat.layers == ALL_LAYERS else SomeLayers(policy_of(remat), *remat.layers)


def _mark_kept(layer: Any, remat: Remat) -> Any:
    return mark_kept_dots(layer, remat.every) if remat.every else layer


def _as_layer(body: Any, scan: Any, remat: Remat) -> Any:
    jaxpr = body.jaxpr
    arguments = [*jaxpr.constvars, *jaxpr.invars]
    results = [jex_core.Var(atom.aval) for atom in jaxpr.outvars]
    inner = _mark_kept(jaxpr.replace(constvars=(), invars=arguments), remat)
    eqn = checkpoint_equation(inner, arguments, results, scan, policy=_layer_policy(remat), prevent_cse=False)
    return jex_core.ClosedJaxpr(jaxpr.replace(eqns=[eqn], outvars=results), body.consts)


# Recomputation of named scopes: their equations are moved into a `jax.checkpoint` that keeps nothing.
#
# Equations of one scope, and of adjacent requested scopes (`attention/scores` and `attention/mix`), make one part: values passed
# between them are not kept either.


def is_in_scope(scope: str, path: str) -> bool:
    """Return whether a path leads through a scope, `scores` or `attention/scores`.

    >>> is_in_scope("scores", "layers/0/attention/scores/dot_general"), is_in_scope("attention/mix", "attention/scores")
    (True, False)
    """
    return f"/{scope}/" in f"/{path}/"


def checkpoint_equation(inner: Any, invars: Sequence[Any], outvars: Sequence[Any], like: Any, *, policy: Any, prevent_cse: bool) -> Any:
    """`jax.checkpoint` of a jaxpr without constants, as an equation with the source line of equation `like`."""
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
    delayed: list[Any] = []  # equations between those of a part that read from it
    dependent: set[Any] = set()
    for index, eqn in enumerate(jaxpr.eqns):
        number = part_of.get(index)
        if number is None:
            depends = any(atom in dependent for atom in variables(eqn.invars))
            dependent.update(eqn.outvars if depends else ())
            (delayed if depends else eqns).append(eqn)
            continue
        dependent.update(eqn.outvars)
        if index == parts[number][-1]:
            eqns += [_make_checkpoint(jaxpr, parts[number], readers, prevent_cse=prevent_cse), *delayed]
            delayed, dependent = [], set()
    return jaxpr.replace(eqns=eqns)


def _find_prefix(eqn: Any, scopes: Sequence[str]) -> str | None:
    """The path before an equation's scope, the same for all equations of one layer; `None` outside all scopes."""
    path = f"/{without_marks(str(eqn.source_info.name_stack))}/"
    return next((path.partition(f"/{scope}/")[0] for scope in scopes if is_in_scope(scope, path.strip("/"))), None)


def _find_parts(eqns: Sequence[Any], scopes: Sequence[str]) -> list[list[int]]:
    """Indices of each part; it ends before another layer, or an equation that depends on it from outside."""
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
    produced = {var: None for eqn in eqns for var in eqn.outvars}
    read = dict.fromkeys(atom for eqn in eqns for atom in variables(eqn.invars) if atom not in produced)
    results = [var for var in produced if readers.get(var, set()) - set(part)]
    effects = set().union(*(eqn.effects for eqn in eqns))
    inner = jaxpr.replace(constvars=(), invars=list(read), outvars=results, eqns=eqns, effects=effects)
    return checkpoint_equation(inner, list(read), results, eqns[0], policy=None, prevent_cse=prevent_cse)
