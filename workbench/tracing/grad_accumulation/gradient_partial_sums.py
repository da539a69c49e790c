"""Gradients of a micro-batch as partial sums, one for each data-parallel shard of it.

Devices that share the micro-batches of a step sum their own shards of a gradient, and reduce over each other once at
the step's end instead of once per micro-batch. The gradient of a weight ends in an operation that sums over the batch
(a product, a sum, a scatter), followed by operations linear in that sum. So the summing operation is done on each shard
alone, and the rest on each partial sum, also inside recomputed layers. This is exact for any network, including batch
normalization, as nothing earlier changes; gradients that end differently (a convolution) are left unchanged.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
from jax.extend import core as jex_core
from jax.extend.core import primitives

from workbench.tracing.grad_accumulation.summing_equations import (
    PartialSumResults,
    SummedOperand,
    SummedScan,
    SummingRules,
    list_partial_results,
    rewrite_scan,
    run_scan,
    split_scan,
)
from workbench.tracing.jaxpr.equations import Inlining, closed_jaxpr, inline, variables
from workbench.tracing.stage_partition.stage_tasks import TracedStageTask

# A jaxpr with some of its results as partial sums, one for each data-parallel shard of a micro-batch.
#
# A `jax.checkpoint` stays one equation with the same policy and barrier: its jaxpr returns partial sums instead of their
# sum. The same holds for optimization barriers and loop bodies.


_BARRIER = "optimization_barrier"


class _EquationUse(NamedTuple):
    """Results of an equation read whole and as partial sums; `inside`: the inner jaxpr if it returns both."""

    eqn: Any
    wholes: tuple[int, ...]
    partials: tuple[int, ...]
    inside: PartialSumResults | None = None


@dataclass(frozen=True, eq=False)
class PartialSumJaxpr:
    """Finds the variables of `closed` that can be partial sums, and rewrites it to return some results so.

    A micro-batch of `batch` examples has `count` shards; `given` numbers the arguments that are partial sums. `known`
    caches inner jaxprs, which JAX shares among identical layers.
    """

    closed: Any
    count: int
    batch: int
    given: frozenset[int] = frozenset()
    known: dict[Any, "PartialSumJaxpr"] = field(default_factory=dict)

    @cached_property
    def partial_results(self) -> frozenset[int]:
        return frozenset(i for i, atom in enumerate(self._outvars) if not isinstance(atom, jex_core.Literal) and atom in self._partial)

    def rewrite(self, wholes: Sequence[int], partials: Sequence[int]) -> PartialSumResults:
        """The jaxpr that returns results `wholes` unchanged, followed by results `partials` as partial sums."""
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
        """The variables that can be partial sums, with the operands of equations that are done shard by shard."""
        invars = self.closed.jaxpr.invars
        partial_vars: dict[Any, Sequence[SummedOperand]] = {invars[i]: () for i in self.given}
        for eqn in self._inlined[0]:
            if _is_joint(eqn):
                partial_vars.update(
                    (eqn.outvars[i], ()) for i in self._find_joint_results(eqn, frozenset(_positions(eqn.invars, partial_vars)))
                )
            elif (operands := self._rules.find_operands(eqn, partial_vars)) is not None:
                partial_vars.update(dict.fromkeys(eqn.outvars, operands))
        return partial_vars

    def _find_joint_results(self, eqn: Any, given: frozenset[int]) -> frozenset[int]:
        if eqn.primitive.name == _BARRIER:
            return given
        inside = self._inside(eqn, given)
        return list_partial_results(eqn, inside) if _is_scan(eqn) else inside.partial_results

    def _inside(self, eqn: Any, given: frozenset[int]) -> "PartialSumJaxpr":
        """The inner jaxpr of an equation; `given` numbers its operands that can be partial sums."""
        jaxpr = eqn.params["jaxpr"]
        closed = jaxpr if isinstance(jaxpr, jex_core.ClosedJaxpr) else jex_core.ClosedJaxpr(jaxpr, ())

        def split(arguments: frozenset[int]) -> PartialSumJaxpr:
            key = id(jaxpr), arguments
            if key not in self.known:
                self.known[key] = PartialSumJaxpr(closed, self.count, self.batch, arguments, self.known)
            return self.known[key]

        return split_scan(eqn, given, self._rules.list_zeros(eqn), split) if _is_scan(eqn) else split(given)

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
        results = [*map(writer.read, wholes), *(parts[var] for var in partials)]
        return PartialSumResults(closed_jaxpr(jaxpr, writer.written.constants, arguments, writer.written.eqns, results), read, read_split)

    def _find_uses(self, wholes: Sequence[Any], partials: Sequence[Any]) -> tuple[list[_EquationUse], set[Any], set[Any]]:
        """The uses of each equation, in order, and the variables read whole and as partial sums."""
        needed, split = set(variables(wholes)), set(partials)
        uses = []
        for eqn in reversed(self._inlined[0]):
            use = _EquationUse(eqn, _positions(eqn.outvars, needed), _positions(eqn.outvars, split))
            if not use.wholes and not use.partials:
                continue
            if use.partials and _is_joint(eqn):
                use = self._rewrite_joint(use)
            uses.append(use)
            for atom, is_partial in self._list_read(use):
                (split if is_partial else needed).add(atom)
        return uses[::-1], needed, split

    def _rewrite_joint(self, use: _EquationUse) -> _EquationUse:
        if use.eqn.primitive.name == _BARRIER:
            return use._replace(inside=PartialSumResults(None, use.wholes, use.partials))
        inside = self._inside(use.eqn, frozenset(_positions(use.eqn.invars, self._partial)))
        if not _is_scan(use.eqn):
            return use._replace(inside=inside.rewrite(use.wholes, use.partials))
        scan = rewrite_scan(use.eqn, use.wholes, use.partials, inside)
        return _EquationUse(use.eqn, scan.wholes, scan.partials, scan.body)

    def _list_read(self, use: _EquationUse) -> Iterator[tuple[Any, bool]]:
        """The variables that a use of an equation reads, and whether as partial sums."""
        invars = use.eqn.invars
        if use.inside:
            yield from ((item, False) for item in variables(invars[i] for i in use.inside.wholes))
            yield from ((invars[i], True) for i in use.inside.partials if i in _positions(invars, self._partial))
            return
        if use.wholes:
            yield from ((item, False) for item in variables(invars))
        if use.partials:
            operands = self._partial[use.eqn.outvars[use.partials[0]]]
            yield from ((item.atom, item.is_partial) for item in operands if not isinstance(item.atom, jex_core.Literal))


@dataclass(frozen=True, slots=True)
class _PartialSumWriter:
    """Rewrites equations as they are used into `written`, with the constants that they read.

    `parts` has the partial-sum variable of each variable of the old jaxpr `base`, `renamed` the whole ones with a new
    name.
    """

    rules: SummingRules
    base: Any
    partial: Mapping[Any, Sequence[SummedOperand]]
    parts: dict[Any, Any]
    written: Inlining
    renamed: dict[Any, Any] = field(default_factory=dict)

    def read(self, atom: Any) -> Any:
        return atom if isinstance(atom, jex_core.Literal) else self.renamed.get(atom, atom)

    def write(self, use: _EquationUse) -> None:
        if use.inside:
            (self._write_scan if _is_scan(use.eqn) else self._write_joint)(use, use.inside)
            return
        if use.wholes:
            self.written.eqns.append(use.eqn.replace(invars=[*map(self.read, use.eqn.invars)]))
        if use.partials:
            self._write_parts(use.eqn, self.partial[use.eqn.outvars[use.partials[0]]])

    def _write_joint(self, use: _EquationUse, inside: PartialSumResults) -> None:
        eqn = use.eqn
        for i in use.partials:
            self.parts[eqn.outvars[i]] = _make_parts_var(eqn.outvars[i], self.rules.count)
        invars = [*(self.read(eqn.invars[i]) for i in inside.wholes), *(self.parts[eqn.invars[i]] for i in inside.partials)]
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
        new_vars = [jex_core.Var(var.aval) for var in closed.jaxpr.constvars]
        self.written.constants.update(zip(new_vars, closed.consts, strict=True))
        return new_vars

    def _write_scan(self, use: _EquationUse, body: PartialSumResults) -> None:
        eqn, scan, width = use.eqn, SummedScan(body, use.wholes, use.partials), len(body.wholes)
        partial_operands = [i for i in _positions(eqn.invars, self.parts) if i in body.partials]
        atoms = [*(self.read(eqn.invars[i]) for i in body.wholes), *(self.parts[eqn.invars[i]] for i in partial_operands)]

        def run(*values: Any) -> list[Any]:
            whole, partial = dict(zip(body.wholes, values[:width], strict=True)), dict(zip(partial_operands, values[width:], strict=True))
            return run_scan(eqn, scan, self.rules.count, whole, partial)

        start = len(self.written.eqns)
        results = self._write_traced(run, atoms)
        self.written.eqns[start:] = [new_eqn.replace(source_info=eqn.source_info) for new_eqn in self.written.eqns[start:]]
        self.renamed.update(zip((eqn.outvars[i] for i in use.wholes), results, strict=False))
        self.parts.update(zip((eqn.outvars[i] for i in use.partials), results[len(use.wholes) :], strict=True))

    def _write_parts(self, eqn: Any, operands: Sequence[SummedOperand]) -> None:
        variable_operands = [operand for operand in operands if not isinstance(operand.atom, jex_core.Literal)]
        atoms = [self.parts[operand.atom] if operand.is_partial else self.read(operand.atom) for operand in variable_operands]
        results = self._write_traced(lambda *values: self.rules.apply(self.base, eqn, operands, values), atoms)
        self.parts.update(zip(eqn.outvars, results, strict=True))

    def _write_traced(self, fn: Callable[..., Sequence[Any]], atoms: Sequence[Any]) -> list[Any]:
        specs = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype, weak_type=atom.aval.weak_type) for atom in atoms]
        return self.written.block(jax.make_jaxpr(fn)(*specs), atoms, None)


def _is_joint(eqn: Any) -> bool:
    """Return whether an equation has several results each of which may be whole or partial sums."""
    return eqn.primitive is primitives.remat_p or eqn.primitive.name == _BARRIER or _is_scan(eqn)


def _is_scan(eqn: Any) -> bool:
    return eqn.primitive is primitives.scan_p


def _positions(atoms: Sequence[Any], among: Container[Any]) -> tuple[int, ...]:
    return tuple(i for i, atom in enumerate(atoms) if not isinstance(atom, jex_core.Literal) and atom in among)


def _make_parts_var(whole: Any, count: int) -> Any:
    return jex_core.Var(whole.aval.update(shape=(count, *whole.aval.shape)))


def _take_constants_as_arguments(jaxpr: Any) -> Any:
    return jaxpr.replace(constvars=(), invars=[*jaxpr.invars, *jaxpr.constvars])


# The gradients of a loss.


@dataclass(frozen=True)
class DataParallelGroups:
    """A micro-batch's `count` shards along `axes`; `param_slices` are those that every shard holds whole."""

    axes: tuple[str, ...] = ()
    count: int = 1
    param_slices: frozenset[int] = frozenset()

    def among(self, param_slices: Iterable[int]) -> "DataParallelGroups":
        """The groups restricted to these parameter slices; `NO_GROUPS` if none of them has partial sums."""
        common = self.param_slices.intersection(param_slices)
        return replace(self, param_slices=common) if common else NO_GROUPS


NO_GROUPS = DataParallelGroups()


def split_gradients(task: TracedStageTask, count: int, batch: int, places: Collection[int]) -> tuple[TracedStageTask, frozenset[int]]:
    """The task with gradients of `places` as `count` partial sums along a new first dimension, and the places split so.

    `batch` is the micro-batch size: the summed dimension is as large, or comes first and is a multiple of it.
    """
    gradients = _list_gradients(task, places)
    if not _divides(count, batch) or not gradients:
        return task, frozenset()
    jaxpr = _find_partial_sums(task, count, batch)
    split = [i for i in gradients if i in jaxpr.partial_results]
    if not split:
        return task, frozenset()
    return _rewrite_task(task, jaxpr, split)[0], frozenset(gradients[i] for i in split)


def split_halves(
    halves: tuple[TracedStageTask, TracedStageTask], count: int, batch: int, places: Collection[int]
) -> tuple[tuple[TracedStageTask, TracedStageTask], frozenset[int]]:
    """`split_gradients` for the halves of a backward pass, with partial sums passed from the first to the second."""
    first, second = halves
    gradients = _list_gradients(second, places)
    if not _divides(count, batch) or not gradients:
        return halves, frozenset()
    before = _find_partial_sums(first, count, batch)
    passed = {place: i for i, (group, place) in enumerate(first.gives) if group == "pending" and i in before.partial_results}
    passed_partials = frozenset(i for i, (group, place) in enumerate(second.reads) if group == "pending" and place in passed)
    while True:
        after = _find_partial_sums(second, count, batch, passed_partials)
        split = [i for i in gradients if i in after.partial_results]
        rewritten, read = _rewrite_task(second, after, split)
        if not (read_both_ways := passed_partials.intersection(read.wholes)):
            break
        passed_partials -= read_both_ways
    handed_over = [passed[second.reads[i][1]] for i in read.partials]
    return (_rewrite_task(first, before, handed_over)[0], rewritten), frozenset(gradients[i] for i in split)


def _list_gradients(task: TracedStageTask, places: Collection[int]) -> dict[int, int]:
    return {i: place for i, (group, place) in enumerate(task.gives) if group == "gradient" and place in places}


def _divides(count: int, batch: int) -> bool:
    return count > 1 and batch > 0 and batch % count == 0


def _find_partial_sums(task: TracedStageTask, count: int, batch: int, given: frozenset[int] = frozenset()) -> PartialSumJaxpr:
    return PartialSumJaxpr(jax.make_jaxpr(task.call)(*task.specs), count, batch, given)


def _rewrite_task(task: TracedStageTask, jaxpr: PartialSumJaxpr, split: Sequence[int]) -> tuple[TracedStageTask, PartialSumResults]:
    """The task with the results in `split`, and the arguments they are made from, as partial sums."""
    others = [i for i in range(len(task.gives)) if i not in split]
    results = jaxpr.rewrite(others, split)
    order = [[*others, *split].index(i) for i in range(len(task.gives))]
    specs = list(task.specs)
    for i in results.partials:
        specs[i] = jax.ShapeDtypeStruct((jaxpr.count, *specs[i].shape), specs[i].dtype)

    def call(*values: Any) -> tuple[Any, ...]:
        values_by_number = jex_core.jaxpr_as_fun(results.closed)(*(values[i] for i in (*results.wholes, *results.partials)))
        return tuple(values_by_number[place] for place in order)

    return replace(task, call=call, specs=tuple(specs)), results
