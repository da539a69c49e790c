"""A flat loss in blocks: the units that users see and drag, named after the program's scopes.

Equations that depend on parameters *and* batch are the network proper, in trace order; stage boundaries fall between
its blocks. Equations that depend on one of them alone (a cast of weights, a mask, random keys) are cheap and belong to
no block: each stage that reads them computes them from its own weights and copy of the batch.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import jax

from workbench.core.derived_value_cache import CACHE
from workbench.core.path_patterns import template
from workbench.core.pipeline_spec import BATCH as BATCH_DIM
from workbench.core.pipeline_spec import batch_dim, plan_input_splits
from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.errors import PipelineError
from workbench.tracing.grad_accumulation.micro_batch_marks import micro_batch_spec
from workbench.tracing.jaxpr import equations
from workbench.tracing.jaxpr.apply_remat_policy import Rematerialized
from workbench.tracing.jaxpr.flatten_loss import Flat, flatten
from workbench.tracing.trace_function import guard_tracing

_PRODUCTS = ("dot_general", "conv_general_dilated", "ragged_dot")


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive equations under one named scope.

    - `flops` and `traffic` (bytes read and written without fusion): of the forward pass of one micro-batch;
    - `param_slices`: numbers of the parameter slices it reads; `parameter_bytes`: their bytes;
    - `crossing`: bytes of one micro-batch made up to here and read later: the payload of a boundary after this block,
      skips included.
    """

    path: str
    flops: int
    traffic: int
    param_slices: tuple[int, ...]
    parameter_bytes: int
    crossing: int


@dataclass(frozen=True, eq=False)
class Network:
    """A flat loss with the paths of its parameters (`params/layers/w1`, one per leaf) and of its batch.

    `micro_batches`: the number of micro-batches the batch was split into before the trace, along dimension `batch_dim`;
    `dims`: dimension names of parameters and batch, by path; `sums` and `frozen`: as in `Training`.
    """

    flat: Flat
    parameter_paths: tuple[str, ...]
    batch_paths: tuple[str, ...]
    micro_batches: int
    name: str
    batch_dim: str = BATCH_DIM
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sums: str | None = None
    frozen: frozenset[int] = frozenset()

    def trains(self, param_slice: int) -> bool:
        """Return whether a parameter slice is not frozen."""
        return self.flat.param_slices[param_slice][0].leaf not in self.frozen

    @cached_property
    def batch_sizes(self) -> tuple[tuple[str, int], ...]:
        """The names and sizes of the dimensions of a leaf of a micro-batch that is split."""
        leaves = [(self.dims.get(path, ()), var.aval.shape) for path, var in zip(self.batch_paths, self.flat.batch, strict=True)]
        divided = [tuple(zip(names, shape, strict=True)) for names, shape in leaves if self.batch_dim in names]
        return next(iter(divided), ()) or next((((self.batch_dim, shape[0]),) for _, shape in leaves if shape), ())

    @cached_property
    def proper(self) -> tuple[Any, ...]:
        return tuple(eqn for eqn, kind in zip(self.flat.eqns, self._kinds, strict=True) if kind == equations.BOTH)

    @cached_property
    def maker(self) -> dict[Any, Any]:
        """The equation that makes each variable outside all blocks."""
        free = (eqn for eqn, kind in zip(self.flat.eqns, self._kinds, strict=True) if kind != equations.BOTH)
        return {var: eqn for eqn in free for var in eqn.outvars}

    @cached_property
    def _kinds(self) -> tuple[int, ...]:
        part = {var: equations.PARAMETERS for _, var in self.flat.param_slices} | dict.fromkeys(self.flat.batch, equations.BATCH)
        return tuple(equations.classify_equations(self.flat.eqns, part))

    @cached_property
    def block_starts(self) -> tuple[int, ...]:
        """The index of each block's first equation in `proper`."""
        return tuple(start for start, _ in self._runs)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The blocks' paths; repeated ones are numbered, `encoder` and `encoder_2`."""
        seen: Counter[str] = Counter()
        names = []
        for _, path in self._runs:
            seen[path] += 1
            names.append(path if seen[path] == 1 else f"{path}_{seen[path]}")
        return tuple(names)

    @cached_property
    def _runs(self) -> list[tuple[int, str]]:
        if not self.proper:
            raise PipelineError(f"`{self.name}` computes nothing from both parameters and batch, so it cannot be partitioned.")
        scopes = [equations.scope_of(eqn) for eqn in self.proper]
        return _group_by_scope(scopes) if any(scopes) else _by_product(self.proper)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        ends = (*self.block_starts[1:], len(self.proper))
        maker_index = {var: index for index, eqn in enumerate(self.proper) for var in eqn.outvars}
        crossing = _count_crossing_bytes(self.proper, maker_index, self.results)
        number = {var: i for i, (_, var) in enumerate(self.flat.param_slices)}
        blocks = []
        for path, begin, end in zip(self.paths, self.block_starts, ends, strict=True):
            eqns = self.with_free(self.proper[begin:end])
            param_slices = tuple(sorted({number[var] for eqn in eqns for var in equations.variables(eqn.invars) if var in number}))
            parameter_bytes = sum(equations.size_of(self.flat.param_slices[i][1].aval) for i in param_slices)
            work = sum(map(equations.flops_of, eqns)), sum(map(equations.traffic_of, eqns))
            blocks.append(Block(path, *work, param_slices, parameter_bytes, crossing[end - 1]))
        return tuple(blocks)

    @property
    def results(self) -> list[Any]:
        return equations.variables([self.flat.loss] if self.flat.weight is None else [self.flat.loss, self.flat.weight])

    def with_free(self, eqns: Sequence[Any], results: Iterable[Any] = ()) -> list[Any]:
        """The equations, preceded by those outside all blocks that they (and `results`) depend on, in trace order."""
        free: dict[int, Any] = {}
        pending = [*(var for eqn in eqns for var in equations.variables(eqn.invars)), *equations.variables(results)]
        while pending:
            eqn = self.maker.get(pending.pop())
            if eqn is not None and id(eqn) not in free:
                free[id(eqn)] = eqn
                pending += equations.variables(eqn.invars)
        return [*sorted(free.values(), key=lambda eqn: self._order[id(eqn)]), *eqns]

    @cached_property
    def _order(self) -> dict[int, int]:
        return {id(eqn): index for index, eqn in enumerate(self.flat.eqns)}


def _group_by_scope(scopes: Sequence[str]) -> list[tuple[int, str]]:
    """Runs of equations of one block; unscoped equations join the block before, unless equal layers would then differ."""
    common = _count_common([scope.split("/") for scope in scopes if scope])
    runs: list[tuple[int, str]] = []
    for index, scope in enumerate(scopes):
        path = block_path(scope, common)
        if not runs or (path and runs[-1][1] and path != runs[-1][1]):
            runs.append((index, path))
        elif path and not runs[-1][1]:
            runs[-1] = runs[-1][0], path
    return [*_separate_start(runs, scopes), *_separate_end(runs, scopes)]


def _separate_start(runs: list[tuple[int, str]], scopes: Sequence[str]) -> list[tuple[int, str]]:
    """Split equations before the first layer off into a separate block."""
    (_, path), *others = runs
    first = next((index for index, scope in enumerate(scopes) if scope), 0)
    return [(0, "start"), (first, path), *others] if first and template(path) != path else runs


def _separate_end(runs: list[tuple[int, str]], scopes: Sequence[str]) -> list[tuple[int, str]]:
    """Split equations after the last layer, beyond those after the previous layer, off into a separate block."""
    if len(runs) < 2 or not runs[-1][1] or template(runs[-1][1]) == runs[-1][1] or template(runs[-1][1]) != template(runs[-2][1]):
        return []
    before, last = (_count_unscoped(scopes[:end]) for end in (runs[-1][0], len(scopes)))
    return [(len(scopes) - last + before, "end")] if last > before else []


def _count_unscoped(scopes: Sequence[str]) -> int:
    return next((count for count, scope in enumerate(reversed(scopes)) if scope), len(scopes))


def _count_common(scopes: Sequence[Sequence[str]]) -> int:
    """The number of leading words common to all scopes, none of them numbered."""
    count = 0
    for words in zip(*scopes, strict=False):
        if len(set(words)) > 1 or _is_numbered(words[0]):
            break
        count += 1
    return count


def _is_numbered(word: str) -> bool:
    return template(word) != word


@lru_cache(maxsize=65536)  # a search traces the same scopes for every number of micro-batches
def block_path(scope: str, common: int = 0) -> str:
    """The block of a scope: up to its first number, else its first word after the `common` ones.

    >>> block_path("layers/3/attention/scores"), block_path("model/blocks_7/mlp", 1), block_path("head/norm")
    ('layers/3', 'model/blocks_7', 'head')
    """
    words = scope.split("/") if scope else []
    numbered = next((i for i, word in enumerate(words) if _is_numbered(word)), None)
    return "/".join(words[: (common if numbered is None else numbered) + 1])


def _by_product(eqns: Sequence[Any]) -> list[tuple[int, str]]:
    """The blocks of a program without scopes: one for each product, named after it and its position."""
    starts = [place for place, eqn in enumerate(eqns) if eqn.primitive.name in _PRODUCTS] or [0]
    names = [re.sub(r"_general.*", "", eqns[place].primitive.name) for place in starts]
    return [(0 if i == 0 else place, f"{name}_{i}") for i, (place, name) in enumerate(zip(starts, names, strict=True))]


def _count_crossing_bytes(eqns: Sequence[Any], made: dict[Any, int], results: Sequence[Any]) -> list[int]:
    """For each equation, the bytes made up to there and read later."""
    last = {var: index for index, eqn in enumerate(eqns) for var in equations.variables(eqn.invars) if var in made}
    change = [0] * (len(eqns) + 1)
    for var, end in last.items():
        if var not in results:
            change[made[var]] += equations.size_of(var.aval)
            change[end] -= equations.size_of(var.aval)
    sums, total = [], 0
    for delta in change[:-1]:
        total += delta
        sums.append(total)
    return sums


# From a program or a loss to its network.


_NETWORK_BYTES = 650  # per operation of the program, including traces of its blocks (benchmarks/kept_memory.py)


def cached_network(program: Program, micro_batches: int) -> Network | None:
    """The cached result of `network_of`, if any, without tracing."""
    network: Network | None = CACHE.find(program, (network_of, micro_batches))
    return network


def network_of(program: Program, micro_batches: int = 1) -> Network:
    """The network of a training program, traced for one of `micro_batches`.

    Raises `PipelineError` for a program that was not made by `trace_training`, and for micro-batches that do not divide
    the batch.
    """
    size = _NETWORK_BYTES * len(program.operations)
    return CACHE.get(program, (network_of, micro_batches), lambda: _trace_network(program, micro_batches), size)


def _trace_network(program: Program, micro_batches: int) -> Network:
    training = program.step.training
    if training is None:
        raise PipelineError(f"`{program.name}` is not a training step with a loss.", ["make it with `wb.trace_training`"])
    params = [tensor for tensor in program.arguments if tensor.role is Role.PARAMETER]
    specs = [_spec(tensor) for tensor in params]
    inputs = [program.arguments[i] for i in program.inputs]
    splits = plan_input_splits(program, micro_batches)
    batch = [micro_batch_spec(_spec(tensor), split, micro_batches) for tensor, split in zip(inputs, splits, strict=True)]
    trees = jax.tree.unflatten(training.params, specs), jax.tree.unflatten(training.batch, batch)
    network = flatten_loss(
        training.loss, trees, [tensor.path for tensor in params], [tensor.path for tensor in inputs], micro_batches, program.name
    )
    dims = {tensor.path: tensor.dims for tensor in (*params, *inputs)}
    return replace(network, batch_dim=batch_dim(inputs, program.name), dims=dims, sums=training.sums, frozen=training.frozen)


def flatten_loss(
    loss: Callable[..., Any], trees: tuple[Any, Any], params: Sequence[str], batch: Sequence[str], micro_batches: int, name: str
) -> Network:
    closed = guard_tracing(lambda: _trace_value(loss, trees), name)
    return Network(flatten(closed, len(params)), tuple(params), tuple(batch), micro_batches, name)


def _trace_value(loss: Callable[..., Any], trees: tuple[Any, Any]) -> Any:
    """The jaxpr of the loss; partial remat policies are not resolved, as a stage takes layers one by one."""
    if not isinstance(loss, Rematerialized):
        return jax.make_jaxpr(lambda *args: _value(loss(*args)))(*trees)
    closed, _ = loss.rewrite(*trees)
    return closed


def _value(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def _spec(tensor: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(
        tensor.shape, jax.numpy.dtype(tensor.dtype) if not tensor.dtype.startswith("key<") else _key_type(tensor.dtype)
    )


def _key_type(text: str) -> Any:
    """The type of typed random keys, `key<fry>`, which JAX provides only by example."""
    names = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}
    return jax.eval_shape(lambda: jax.random.key(0, impl=names[text])).dtype
