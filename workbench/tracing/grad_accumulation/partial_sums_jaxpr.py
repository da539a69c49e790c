"""A jaxpr with some of its results as partial sums, one for each data-parallel part of a micro-batch.

What `jax.checkpoint` computes again stays one equation, with the same policy and the same barrier: its jaxpr returns partial sums in place
of their sum. So does an optimization barrier between them.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
from jax.extend import core as jex_core
from jax.extend.core import primitives

from workbench.tracing.grad_accumulation.summing_equations import SummedOperand, SummingRules
from workbench.tracing.jaxpr.equations import closed_jaxpr, variables
from workbench.tracing.jaxpr.inline_jaxpr import Inlining, inline

_BARRIER = "optimization_barrier"


class PartialSumResults(NamedTuple):
    """A jaxpr `closed(*wholes, *partials) -> (*wholes, *partials)`.

    `wholes` and `partials` number the arguments of the jaxpr it comes from that it reads, whole and as partial sums.
    """

    closed: Any
    wholes: tuple[int, ...]
    partials: tuple[int, ...]


class _EquationUse(NamedTuple):
    """Which results of an equation are read, by number: whole, and as partial sums. `inside`: what is inside an equation that
    gives both at once."""

    eqn: Any
    wholes: tuple[int, ...]
    partials: tuple[int, ...]
    inside: PartialSumResults | None = None


@dataclass(frozen=True, eq=False)
class PartialSumJaxpr:
    """Finds which variables of `closed` can be had as partial sums, and rewrites it so that results are.

    `count` parts of a micro-batch of `batch` examples; `given` numbers the arguments that are had as partial sums. `known` holds what was
    found of jaxprs inside: JAX shares one among layers that are alike.
    """

    closed: Any
    count: int
    batch: int
    given: frozenset[int] = frozenset()
    known: dict[Any, "PartialSumJaxpr"] = field(default_factory=dict)

    @cached_property
    def partial_results(self) -> frozenset[int]:
        """The numbers of the results that can be had as partial sums."""
        return frozenset(i for i, atom in enumerate(self._outvars) if not isinstance(atom, jex_core.Literal) and atom in self._partial)

    def rewrite(self, wholes: Sequence[int], partials: Sequence[int]) -> PartialSumResults:
        """The jaxpr with the results numbered `wholes` as they are, followed by those numbered `partials` as partial sums."""
        key = (tuple(wholes), tuple(partials))
        if key not in self._rewritten:
            self._rewritten[key] = self._rewrite([self._outvars[i] for i in wholes], [self._outvars[i] for i in partials])
        return self._rewritten[key]

    @cached_property
    def _rewritten(self) -> dict[Any, PartialSumResults]:
        return {}

    @cached_property
    def _inlined(self) -> tuple[list[Any], dict[Any, Any], list[Any]]:
        return inline(self.closed)

    @property
    def _outvars(self) -> list[Any]:
        return self._inlined[2]

    @cached_property
    def _rules(self) -> SummingRules:
        return SummingRules(self.count, self.batch, {var: eqn for eqn in self._inlined[0] for var in eqn.outvars})

    @cached_property
    def _partial(self) -> Mapping[Any, Sequence[SummedOperand]]:
        """The variables that can be had as partial sums; where by doing an equation part by part, its operands."""
        invars = self.closed.jaxpr.invars
        found: dict[Any, Sequence[SummedOperand]] = {invars[i]: () for i in self.given}
        for eqn in self._inlined[0]:
            if _is_joint(eqn):
                found.update((eqn.outvars[i], ()) for i in self._find_joint_results(eqn, frozenset(_positions(eqn.invars, found))))
            elif (operands := self._rules.find_operands(eqn, found)) is not None:
                found.update(dict.fromkeys(eqn.outvars, operands))
        return found

    def _find_joint_results(self, eqn: Any, given: frozenset[int]) -> frozenset[int]:
        return given if eqn.primitive.name == _BARRIER else self._inside(eqn, given).partial_results

    def _inside(self, eqn: Any, given: frozenset[int]) -> "PartialSumJaxpr":
        jaxpr = eqn.params["jaxpr"]
        key = id(jaxpr), given
        if key not in self.known:
            self.known[key] = PartialSumJaxpr(jex_core.ClosedJaxpr(jaxpr, ()), self.count, self.batch, given, self.known)
        return self.known[key]

    def _rewrite(self, wholes: Sequence[Any], partials: Sequence[Any]) -> PartialSumResults:
        uses, needed, split = self._find_uses(wholes, partials)
        jaxpr, constants = self.closed.jaxpr, self._inlined[1]
        read = tuple(i for i, var in enumerate(jaxpr.invars) if var in needed)
        read_split = tuple(i for i, var in enumerate(jaxpr.invars) if var in split)
        parts = {jaxpr.invars[i]: _make_parts_var(jaxpr.invars[i], self.count) for i in read_split}
        arguments = [*(jaxpr.invars[i] for i in read), *parts.values()]
        writer = _PartialSumWriter(
            self._rules, jaxpr, self._partial, parts, Inlining(constants={var: constants[var] for var in constants if var in needed})
        )
        for use in uses:
            writer.write(use)
        results = [*wholes, *(parts[var] for var in partials)]
        return PartialSumResults(closed_jaxpr(jaxpr, writer.written.constants, arguments, writer.written.eqns, results), read, read_split)

    def _find_uses(self, wholes: Sequence[Any], partials: Sequence[Any]) -> tuple[list[_EquationUse], set[Any], set[Any]]:
        """How each equation is used, in their order, and which variables are read whole and which as partial sums."""
        needed, split = set(variables(wholes)), set(partials)
        uses = []
        for eqn in reversed(self._inlined[0]):
            use = _EquationUse(eqn, _positions(eqn.outvars, needed), _positions(eqn.outvars, split))
            if not use.wholes and not use.partials:
                continue
            if use.partials and _is_joint(eqn):
                use = use._replace(inside=self._rewrite_joint(use))
            uses.append(use)
            for atom, is_partial in self._list_read(use):
                (split if is_partial else needed).add(atom)
        return uses[::-1], needed, split

    def _rewrite_joint(self, use: _EquationUse) -> PartialSumResults:
        if use.eqn.primitive.name == _BARRIER:
            return PartialSumResults(None, use.wholes, use.partials)
        return self._inside(use.eqn, frozenset(_positions(use.eqn.invars, self._partial))).rewrite(use.wholes, use.partials)

    def _list_read(self, use: _EquationUse) -> Iterator[tuple[Any, bool]]:
        """The variables that a use of an equation reads, and whether as partial sums."""
        invars = use.eqn.invars
        if use.inside:
            yield from ((each, False) for each in variables(invars[i] for i in use.inside.wholes))
            yield from ((invars[i], True) for i in use.inside.partials)
            return
        if use.wholes:
            yield from ((each, False) for each in variables(invars))
        if use.partials:
            operands = self._partial[use.eqn.outvars[use.partials[0]]]
            yield from ((each.atom, each.is_partial) for each in operands if not isinstance(each.atom, jex_core.Literal))


@dataclass(frozen=True, slots=True)
class _PartialSumWriter:
    """Writes equations anew as they are used; `parts` are the variables with the partial sums of each variable of the old jaxpr `base`,
    `written` the new equations, and the constants that they read."""

    rules: SummingRules
    base: Any
    partial: Mapping[Any, Sequence[SummedOperand]]
    parts: dict[Any, Any]
    written: Inlining

    def write(self, use: _EquationUse) -> None:
        if use.inside:
            self._write_joint(use, use.inside)
            return
        if use.wholes:
            self.written.eqns.append(use.eqn)
        if use.partials:
            self._write_parts(use.eqn, self.partial[use.eqn.outvars[use.partials[0]]])

    def _write_joint(self, use: _EquationUse, inside: PartialSumResults) -> None:
        """One equation for results whole and as partial sums."""
        eqn = use.eqn
        for i in use.partials:
            self.parts[eqn.outvars[i]] = _make_parts_var(eqn.outvars[i], self.rules.count)
        invars = [*(eqn.invars[i] for i in inside.wholes), *(self.parts[eqn.invars[i]] for i in inside.partials)]
        outvars = [*(eqn.outvars[i] for i in use.wholes), *(self.parts[eqn.outvars[i]] for i in use.partials)]
        params = eqn.params
        if inside.closed is not None:
            constants = self._take_constants(inside.closed)
            params = {**params, "jaxpr": _take_constants_as_arguments(inside.closed.jaxpr)}
            if isinstance(params["prevent_cse"], tuple):  # one for each argument
                flags = (params["prevent_cse"][i] for i in (*inside.wholes, *inside.partials))
                params["prevent_cse"] = (*flags, *(False for _ in constants))
            invars += constants
        self.written.eqns.append(eqn.replace(invars=invars, outvars=outvars, params=params))

    def _take_constants(self, closed: Any) -> list[Any]:
        """Variables for the constants of a jaxpr inside."""
        found = [jex_core.Var(var.aval) for var in closed.jaxpr.constvars]
        self.written.constants.update(zip(found, closed.consts, strict=True))
        return found

    def _write_parts(self, eqn: Any, operands: Sequence[SummedOperand]) -> None:
        read = [each for each in operands if not isinstance(each.atom, jex_core.Literal)]
        atoms = [self.parts[each.atom] if each.is_partial else each.atom for each in read]
        specs = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype, weak_type=atom.aval.weak_type) for atom in atoms]
        traced = jax.make_jaxpr(lambda *values: self.rules.apply(self.base, eqn, operands, values))(*specs)
        self.parts.update(zip(eqn.outvars, self.written.block(traced, atoms, None), strict=True))


def _is_joint(eqn: Any) -> bool:
    return eqn.primitive is primitives.remat_p or eqn.primitive.name == _BARRIER


def _positions(atoms: Sequence[Any], among: Container[Any]) -> tuple[int, ...]:
    return tuple(i for i, atom in enumerate(atoms) if not isinstance(atom, jex_core.Literal) and atom in among)


def _make_parts_var(whole: Any, count: int) -> Any:
    return jex_core.Var(whole.aval.update(shape=(count, *whole.aval.shape)))


def _take_constants_as_arguments(jaxpr: Any) -> Any:
    return jaxpr.replace(constvars=(), invars=[*jaxpr.invars, *jaxpr.constvars])
