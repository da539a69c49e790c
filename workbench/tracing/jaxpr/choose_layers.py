"""Remat for a part of the layers, `full layers:1/2`: which of them it is for, in a jaxpr before it is differentiated.

Layers are counted in the order of execution, from 0, those of each loop apart, and those outside of loops through the whole program. Of B
layers in a row the first M have the policy; the others are merged into what is around them, which keeps everything.

A loop's layers share one body. A scan of L iterations becomes one of L / B, whose body is the old one B times over: its stacked arguments
[L, ...] are read as [L / B, B, ...], which moves nothing in memory, and so are its stacked results. (Two scans, each over a part of the
layers, would need a copy of each part of the stacked weights.) Named scopes and source lines stay.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import jax
from jax.extend import core as jex_core
from jax.extend.core import primitives

from workbench.errors import RematError
from workbench.tracing.jaxpr.equations import equations_below, equations_inside, jaxprs_in, rewrite_inside, scan_widths, substituted
from workbench.units import divisors

Block = tuple[list[Any], list[Any]]
"""Equations, and the results among their variables."""


@dataclass(frozen=True, slots=True)
class SomeLayers:
    """The checkpoint policy of a layer of which it is not decided yet whether `policy` is for it: for the first `count` of every `of`."""

    policy: Callable[..., Any] | None
    count: int
    of: int

    def __call__(self, primitive: Any, *operands: Any, **params: Any) -> Any:
        """What JAX would ask, were it never decided: as if it were for all."""
        return self.policy is not None and self.policy(primitive, *operands, **params)


def choose_layers(closed: Any, *, counted: int = 0, group: bool = True) -> Any:
    """A jaxpr without `SomeLayers`, behind `counted` layers; without `group`, loops that hold layers are left as they are.

    Raises `RematError` where a loop's layers are no multiple of those in a row.
    """
    if next(_list_some_layers(closed.jaxpr), None) is None:  # as of nearly every jaxpr, for each layer of a network
        return closed
    return jex_core.ClosedJaxpr(_Chooser(counted, group).choose(closed.jaxpr), closed.consts)


def group_layers(eqn: Any) -> list[Any]:
    """An equation with its layers chosen: for a loop over layers several, any other stays. Raises `RematError` as `choose_layers` does."""
    eqns, results = _group_scan(eqn) if _has_layers(eqn) and eqn.primitive is primitives.scan_p else ([eqn], eqn.outvars)
    renamed = dict(zip(results, eqn.outvars, strict=True))
    return [each.replace(outvars=[renamed.get(var, var) for var in each.outvars]) for each in eqns]


def count_layers(jaxpr: Any) -> int:
    """How many layers a jaxpr runs through that are not in a loop inside it."""
    count = 0
    for eqn in jaxpr.eqns:
        if _some_layers(eqn):
            count += 1
        elif eqn.primitive.name not in ("scan", "while"):
            inner = [count_layers(each) for each in jaxprs_in(eqn)]
            count += max(inner, default=0) if eqn.primitive.name == "cond" else sum(inner)
    return count


def copy_equations(jaxpr: Any, arguments: Sequence[Any], stack: Any) -> Block:
    """The equations of a jaxpr with these arguments, in the scopes of `stack`, their variables made anew: JAX shares jaxprs."""
    known = dict(zip(jaxpr.invars, arguments, strict=True))
    eqns = []
    for eqn in jaxpr.eqns:
        outvars = [jex_core.Var(var.aval) for var in eqn.outvars]
        source = eqn.source_info.replace(name_stack=stack + eqn.source_info.name_stack)
        eqns.append(eqn.replace(invars=substituted(eqn.invars, known), outvars=outvars, source_info=source))
        known.update(zip(eqn.outvars, outvars, strict=True))
    return eqns, substituted(jaxpr.outvars, known)


@dataclass(slots=True)
class _Chooser:
    """A walk in the order of execution; `counted` layers are behind it. In a loop whose forward and backward pass are two loops nothing
    needs to keep XLA from merging what is computed twice; `barrier` says that it does."""

    counted: int = 0
    group: bool = True
    barrier: bool = False

    def choose(self, jaxpr: Any) -> Any:
        found: list[Any] = []
        known: dict[Any, Any] = {}
        for each in jaxpr.eqns:
            eqn = each.replace(invars=substituted(each.invars, known))
            eqns, results = self._choose_equation(eqn)
            found += eqns
            known.update((var, result) for var, result in zip(eqn.outvars, results, strict=True) if var is not result)
        return jaxpr.replace(eqns=found, outvars=substituted(jaxpr.outvars, known))

    def _choose_equation(self, eqn: Any) -> Block:
        if some := _some_layers(eqn):
            self.counted += 1
            return self._choose_layer(eqn, some)
        if not _has_layers(eqn):
            return [eqn], eqn.outvars
        if eqn.primitive is primitives.scan_p:
            return _group_scan(eqn) if self.group else ([eqn], eqn.outvars)
        return [self._choose_inside(eqn)], eqn.outvars

    def _choose_layer(self, eqn: Any, some: SomeLayers) -> Block:
        """A layer that has been counted, with its policy or dissolved."""
        if (self.counted - 1) % some.of >= some.count:
            return copy_equations(eqn.params["jaxpr"], eqn.invars, eqn.source_info.name_stack)
        barrier = self.barrier or eqn.params["prevent_cse"]
        return [eqn.replace(params={**eqn.params, "policy": some.policy, "prevent_cse": barrier})], eqn.outvars

    def _choose_inside(self, eqn: Any) -> Any:
        """An equation that holds layers, with those chosen: a call goes on counting, of branches only one runs, a `while` counts anew."""
        before, ends, is_loop = self.counted, [], eqn.primitive.name == "while"

        def choose(jaxpr: Any) -> Any:
            self.counted = 0 if is_loop else before
            chosen = self.choose(jaxpr)
            ends.append(self.counted)
            return chosen

        chosen = rewrite_inside(eqn, choose)
        self.counted = before if is_loop else max(ends)
        return chosen


def _group_scan(scan: Any) -> Block:
    """A scan over layers with several of its iterations as one, so that each of its layers is one that the policy is for, or none."""
    count = _iterations_together(scan)
    length = scan.params["length"] // count
    if count == 1:
        return [scan.replace(params={**scan.params, "jaxpr": choose_layers(scan.params["jaxpr"])})], scan.outvars
    width = scan_widths(scan)
    eqns, stacks = [], []
    for atom in scan.invars[sum(width) :]:
        made, (stack,) = _splice(lambda x: jax.lax.reshape(x, (length, count, *x.shape[1:])), [atom], scan)
        eqns += made
        stacks.append(stack)
    body = _repeat_body(scan, count, width)
    rows = [jex_core.Var(var.aval.update(shape=(length, *aval.shape))) for var, aval in _stacked_results(scan, body, width[1])]
    outvars = [*(jex_core.Var(var.aval) for var in scan.outvars[: width[1]]), *rows]
    params = {**scan.params, "jaxpr": body, "length": length, "unroll": max(1, scan.params["unroll"] // count)}
    eqns.append(scan.replace(invars=[*scan.invars[: sum(width)], *stacks], outvars=outvars, params=params))
    results = outvars[: width[1]]
    for row in rows:
        made, (stack,) = _splice(lambda x: jax.lax.reshape(x, (length * count, *x.shape[2:])), [row], scan)
        eqns += made
        results.append(stack)
    return eqns, results


def _iterations_together(scan: Any) -> int:
    """How many iterations of a scan make one; raises `RematError` where that is no divisor of their number."""
    body = scan.params["jaxpr"].jaxpr
    layers, length = count_layers(body), scan.params["length"]
    of = next((each.of for each in _list_some_layers(body)), 1)
    count = of // gcd(of, layers) if layers else 1
    if length % count:
        total = layers * length
        parts = [each for each in divisors(total) if each > 1 and length % (each // gcd(each, layers)) == 0]
        known = [f"write `layers:M/B` with B one of {', '.join(map(str, parts))}"] if parts else []
        raise RematError(
            f"A loop runs through {total} layer{'s' * (total != 1)}, no multiple of {of}: remat `layers:M/{of}` is for the first M of "
            f"every {of}.",
            [*known, "leave `layers` out"],
        )
    return count


def _repeat_body(scan: Any, count: int, width: tuple[int, int]) -> Any:
    """The body of a scan `count` times over, each with its slice of the stacks."""
    fixed, carried = width
    closed, params = scan.params["jaxpr"], scan.params
    jaxpr = closed.jaxpr
    invars = [*jaxpr.invars[: fixed + carried], *(_stack_of(var, count) for var in jaxpr.invars[fixed + carried :])]
    empty = type(scan.source_info.name_stack)()
    eqns: list[Any] = []
    slices = []
    for var in invars[fixed + carried :]:
        made, pieces = _splice(_split, [var], scan, empty)
        eqns += made
        slices.append(pieces)
    chooser = _Chooser(barrier=params["length"] == count)
    carry, rows = list(invars[fixed : fixed + carried]), {}
    for index in reversed(range(count)) if params["reverse"] else range(count):
        block, results = copy_equations(chooser.choose(jaxpr), [*invars[:fixed], *carry, *(each[index] for each in slices)], empty)
        eqns += block
        carry, rows[index] = results[:carried], results[carried:]
    outvars = list(carry)
    for column in zip(*(rows[index] for index in range(count)), strict=True):
        made, (stack,) = _splice(stack_rows, column, scan, empty)
        eqns += made
        outvars.append(stack)
    return jex_core.ClosedJaxpr(jaxpr.replace(invars=invars, eqns=eqns, outvars=outvars), closed.consts)


def _stacked_results(scan: Any, body: Any, carried: int) -> Iterator[tuple[Any, Any]]:
    return zip(scan.outvars[carried:], body.out_avals[carried:], strict=True)


def _stack_of(var: Any, count: int) -> Any:
    return jex_core.Var(var.aval.update(shape=(count, *var.aval.shape)))


def _split(stack: Any) -> list[Any]:
    return [jax.lax.squeeze(each, (0,)) for each in jax.lax.split(stack, [1] * stack.shape[0])]


def stack_rows(*rows: Any) -> Any:
    return jax.lax.concatenate([jax.lax.expand_dims(row, (0,)) for row in rows], 0)


def _splice(fn: Callable[..., Any], atoms: Sequence[Any], like: Any, stack: Any = None) -> Block:
    """A small function of these atoms, as equations from the source line of equation `like`, in its scope or that of `stack`."""
    specs = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype, weak_type=atom.aval.weak_type) for atom in atoms]
    jaxpr = jax.make_jaxpr(fn)(*specs).jaxpr
    source = like.source_info if stack is None else like.source_info.replace(name_stack=stack)
    eqns, results = copy_equations(jaxpr, atoms, source.name_stack)
    return [eqn.replace(source_info=source) for eqn in eqns], results


def _some_layers(eqn: Any) -> SomeLayers | None:
    policy = eqn.params.get("policy") if eqn.primitive is primitives.remat_p else None
    return policy if isinstance(policy, SomeLayers) else None


def _list_some_layers(jaxpr: Any) -> Iterator[SomeLayers]:
    return filter(None, (_some_layers(eqn) for eqn, _ in equations_below(jaxpr)))


def _has_layers(eqn: Any) -> bool:
    return any(map(_some_layers, equations_inside(eqn)))
