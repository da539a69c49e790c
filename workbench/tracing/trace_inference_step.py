"""An inference step: fixed parameters, a cache that each step takes and returns, and the input batch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from workbench.core.offload import ALL_ON_DEVICE, Offload
from workbench.core.precision import AS_WRITTEN, Precision
from workbench.core.program import Program, Reference, Step
from workbench.core.remat import AS_TRACED, Remat
from workbench.core.tensor import Role
from workbench.errors import PrecisionError, TraceError
from workbench.tracing.leaves import Leaves, named_leaves
from workbench.tracing.mesh_context import bind_mesh
from workbench.tracing.model_state import first_difference
from workbench.tracing.retraced_variants import Variants
from workbench.tracing.trace_function import (
    Dims,
    build_program,
    fed_leaves,
    guard_tracing,
    host_array,
    name_of,
    sources_of,
    verify_callable,
    verify_forward,
)


def trace_inference(
    step: Callable[..., Any],
    params: Any,
    cache: Any,
    batch: Any,
    *,
    dims: Dims = None,
    name: str | None = None,
    init: Callable[[Any], Any] | None = None,
    data: Callable[[int], Any] | None = None,
    reference: Reference | None = None,
) -> Program:
    """The program of one inference step, `step(params, cache, batch) -> (cache, result)`: a prefill, or the decoding of
    one token.

    **Arguments:** all three are pytrees of arrays or `jax.ShapeDtypeStruct`s. The cache is model state: the returned
    cache is the next step's, in the same memory. Parameters are only read. Paths are `params/...`, `cache/...`,
    `batch/...` and `result/...`. For a live run, `init(key)` makes `(params, cache)` where only shapes were given, and
    `data(step)` the batch.

    Raises `TraceError` if the step cannot be traced or does not return its cache first, `DimensionError` if names do
    not fit. A plan cannot change its remat, precision or offload.

    >>> spec = jax.ShapeDtypeStruct((4,), "float32")
    >>> program = trace_inference(lambda params, cache, batch: (cache + batch, params * cache), spec, spec, spec, name="step")
    >>> [f"{each.path}: {each.role}" for each in program.arguments], program.carried
    (['params: parameter', 'cache: model state', 'batch: input'], ((0, 1),))
    """
    verify_callable("step", step, "a function of parameters, a cache and a batch", "write `trace_inference(step, params, cache, batch)`")
    trees = Leaves.of("params", params), Leaves.of("cache", cache), Leaves.of("batch", batch)
    tracer = _InferenceTracer(name or name_of(step), bind_mesh(step), *trees, dims, init, data, reference)
    return Variants(tracer.program)(AS_TRACED, AS_WRITTEN, ALL_ON_DEVICE)


@dataclass(frozen=True, slots=True)
class _InferenceTracer:
    """The arguments of `trace_inference`; makes its program."""

    title: str
    step: Callable[..., Any]
    params: Leaves
    cache: Leaves
    batch: Leaves
    dims: Dims
    init: Callable[[Any], Any] | None
    data: Callable[[int], Any] | None
    reference: Reference | None

    def program(self, remat: Remat, precision: Precision, offload: Offload) -> Program:
        verify_forward(self.title, remat, precision, offload)
        if precision != AS_WRITTEN:
            raise PrecisionError(
                f"`{self.title}` is an inference step: the types of its weights and cache are fixed by the function.",
                ["build it with other types, `weights` and `cache` of a model of the zoo", "cast in it"],
            )
        trees = self.params, self.cache, self.batch
        result = guard_tracing(lambda: jax.eval_shape(partial(self.step), *(tree.tree() for tree in trees)), self.title)
        self._verify_carried(result)
        roles = [role for role, tree in zip((Role.PARAMETER, Role.MODEL_STATE, Role.INPUT), trees, strict=True) for _ in tree.paths]
        paths, specs = ([value for tree in trees for value in getattr(tree, kind)] for kind in ("paths", "specs"))
        outputs = [(path, Role.MODEL_STATE) for path in self.cache.paths]
        outputs += [(path, Role.OUTPUT) for path in named_leaves("result", result[1])[0]]
        carried = tuple((i, len(self.params.paths) + i) for i in range(len(self.cache.paths)))
        return build_program(self.title, self._make_step(specs, roles), paths, specs, roles, outputs, carried, self.dims, self.reference)

    def _verify_carried(self, result: Any) -> None:
        ways_out = ["return `cache, result`", "return every leaf of the cache in the shape and type it was given"]
        if not isinstance(result, tuple) or len(result) != 2:
            raise TraceError(f"`{self.title}` does not return two values, its cache and a result.", ways_out)
        if difference := first_difference(self.cache, result[0], "cache"):
            raise TraceError(f"The cache that `{self.title}` returns differs from the cache it takes: {difference}.", ways_out)

    def _make_step(self, specs: list[Any], roles: list[Role]) -> Step:
        trees = self.params, self.cache, self.batch
        structure = jax.tree.structure(tuple(tree.tree() for tree in trees))
        step, init, data = self.step, self.init, self.data

        def call(*leaves: Any) -> tuple[Any, ...]:
            return tuple(jax.tree.leaves(step(*jax.tree.unflatten(structure, leaves))))

        sources = sources_of([leaf for tree in trees for leaf in tree.examples], specs, roles)
        if init is not None:
            sources |= {"initialize": lambda key, _given: tuple(jax.tree.leaves(init(key))), "given_indices": (), "given": ()}
        if data is not None:
            sources["feed"] = lambda number: tuple(host_array(leaf) for leaf in fed_leaves(data, number, self.batch.paths))
        return Step(call, **sources)
