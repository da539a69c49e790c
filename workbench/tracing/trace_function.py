"""Traces any JAX function into a `Program`, without allocations or devices, and reports errors with the user's own
line.
"""

import inspect
import math
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from itertools import chain
from pathlib import Path
from typing import Any

import jax
import numpy as np

from workbench.core.jax_installation import warn_if_untested
from workbench.core.offload import ALL_ON_DEVICE, Offload
from workbench.core.precision import AS_WRITTEN, FLOATS, Precision
from workbench.core.program import Program, Reference, Step
from workbench.core.remat import AS_TRACED, Remat
from workbench.core.tensor import Role, Tensor
from workbench.core.text_tables import paths_text
from workbench.errors import OffloadError, PrecisionError, RematError, TraceError, WorkbenchError, opening_text, wrong_type
from workbench.propagation import prepare_program, set_library_call_stacks
from workbench.propagation.module.source_location import is_library
from workbench.tracing.given_dim_names import user_names
from workbench.tracing.jaxpr.equations import equations_below, removed_values, size_of, source_line, user_functions
from workbench.tracing.jaxpr.float8_products import InFloat8
from workbench.tracing.leaves import named_leaves, path_of, spec_of
from workbench.tracing.lower_for_platform import lower
from workbench.tracing.mesh_context import bind_mesh, called_pmap_error, verify_pmaps, written_shardings
from workbench.tracing.model_state import cast, cast_like, compute_in
from workbench.tracing.retraced_variants import Variants
from workbench.units import format_bytes

Dims = Mapping[str, Any] | None
PARAMETER_NAMES = ("params", "parameters", "weights", "variables", "model")


def trace(fn: Callable[..., Any], *args: Any, dims: Dims = None, name: str | None = None, reference: Reference | None = None) -> Program:
    """The program of `fn(*args)`.

    **Arguments:** `args` are pytrees of arrays or `jax.ShapeDtypeStruct`s. `dims` names dimensions
    (`tracing.given_dim_names`); the rest is inferred. An argument called `params`, `weights` or `model` holds
    parameters; others are inputs.

    Raises `TraceError` if the function cannot be traced, `DimensionError` if names do not fit.

    >>> spec = jax.ShapeDtypeStruct((8, 4), "float32")
    >>> program = trace(lambda x: x.sum(0), spec, dims={"x": "batch feature"})
    >>> print(program.arguments[0], "->", program.results[0].dims)
    x: float32[batch=8, feature=4] -> ('feature',)
    """
    verify_callable("fn", fn, "a function of arrays", "write `trace(function, *arguments)`")
    title = name or name_of(fn)
    fn = bind_mesh(fn)
    roots = argument_names(fn, len(args))
    roles = [Role.PARAMETER if root in PARAMETER_NAMES else Role.INPUT for root in roots]
    flat = [named_leaves(root, arg) for root, arg in zip(roots, args, strict=True)]
    paths = [path for leaf_paths, _ in flat for path in leaf_paths]
    leaves = [leaf for _, values in flat for leaf in values]
    leaf_roles = [role for role, (leaf_paths, _) in zip(roles, flat, strict=True) for _ in leaf_paths]
    structure = jax.tree.structure(args)
    plain = [spec_of(path, leaf) for path, leaf in zip(paths, leaves, strict=True)]

    def traced(remat: Remat, precision: Precision, offload: Offload) -> Program:
        verify_forward(title, remat, precision, offload)
        specs = [cast(spec, precision.params) if role is Role.PARAMETER else spec for spec, role in zip(plain, leaf_roles, strict=True)]
        result = guard_tracing(lambda: jax.eval_shape(partial(fn), *jax.tree.unflatten(structure, plain)), title)
        plainly = compute_in(fn, precision.compute, result)
        weights = [place for place, role in enumerate(roles) if role is Role.PARAMETER]
        call = _take_leaves(InFloat8(plainly, precision.products, title, weights) if precision.products else plainly, structure)
        step = Step(call, **sources_of(leaves, specs, leaf_roles))
        program = build_program(title, step, paths, specs, leaf_roles, _result_paths(result), (), dims, reference)
        return replace(program, choices=tuple(("precision", text) for text in ("as traced", *FLOATS)))

    return Variants(traced)(AS_TRACED, AS_WRITTEN, ALL_ON_DEVICE)


def verify_callable(name: str, given: object, expected: str, way_out: str) -> None:
    """Raise `TraceError` if `given` is not callable."""
    if not callable(given):
        raise TraceError(wrong_type(name, given, expected), [way_out])


def _take_leaves(fn: Callable[..., Any], structure: Any) -> Callable[..., tuple[Any, ...]]:
    return lambda *values: tuple(jax.tree.leaves(fn(*jax.tree.unflatten(structure, values))))


def verify_forward(name: str, remat: Remat, precision: Precision, offload: Offload) -> None:
    """Raise an error for backward-pass or optimizer settings of a function that has neither."""
    if remat != AS_TRACED:
        raise RematError(
            f"`{name}` is not a training step; remat needs a backward pass.",
            ["trace its loss with `wb.trace_training`", "use `jax.checkpoint` in it"],
        )
    for part in ("moments", "master", "sums"):
        if (dtype := getattr(precision, part)) is not None:
            raise PrecisionError(f"`{name}` has no optimizer, so its {part} cannot be {dtype}.", [f"leave `{part}` out"])
    if offload.optimizer_state:
        raise OffloadError(
            f"`{name}` has no optimizer, so no state can be in host memory.",
            ["trace a training step, `wb.trace_training(loss, params, batch, optimizer=...)`", "leave `offload` out"],
        )


def argument_names(fn: Callable[..., Any], count: int) -> list[str]:
    """The names of the first `count` positional parameters of `fn`."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return [f"arg{i}" for i in range(count)]
    positional = [item.name for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    variadic = next((item.name for item in parameters if item.kind is item.VAR_POSITIONAL), None)
    if count > len(positional) and variadic:
        positional += [f"{variadic}_{i}" for i in range(count - len(positional))]
    if count > len(positional):
        raise TraceError(f"`{name_of(fn)}` takes {len(positional)} arguments; {count} were given.", ["give one example for each argument"])
    return positional[:count]


def _result_paths(result: Any) -> list[tuple[str, Role]]:
    return [(path_of("result", keys), Role.OUTPUT) for keys, _ in jax.tree_util.tree_flatten_with_path(result)[0]]


def guard_tracing(evaluate: Callable[[], Any], name: str) -> Any:
    """Run a piece of tracing; exceptions of the user's function become one readable `TraceError`."""
    try:
        return evaluate()
    except WorkbenchError:
        raise
    except Exception as error:
        raise untraceable_error(error, name) from error


def build_program(
    name: str,
    step: Step,
    paths: list[str],
    specs: list[jax.ShapeDtypeStruct],
    roles: list[Role],
    results: list[tuple[str, Role]],
    carried: tuple[tuple[int, int], ...],
    dims: Dims,
    reference: Reference | None,
) -> Program:
    """Lower the step, prepare it for the partitioner and name its dimensions."""
    warn_if_untested()
    _verify_paths(paths)
    names = user_names(dims, {path: spec.shape for path, spec in zip(paths, specs, strict=True)})
    traced = guard_tracing(lambda: _trace_once(step.call, specs), name)
    verify_byte_counts(traced.jaxpr.jaxpr, name)
    verify_pmaps(traced.jaxpr.jaxpr)
    custom_partitioning = _find_own_partitioning(traced.jaxpr.jaxpr)
    lowered = guard_tracing(lambda: lower(traced, name), name)
    module = lowered.module
    set_library_call_stacks(module.operation, set(user_functions(traced.jaxpr.jaxpr)))
    traced.jaxpr.jaxpr.eqns.clear()  # JAX 0.11 caches for good what it lowered, with all its arguments
    arguments = [
        Tensor(path, spec.shape, str(spec.dtype), ("",) * len(spec.shape), role)
        for path, spec, role in zip(paths, specs, roles, strict=True)
    ]
    outputs = [
        Tensor(path, spec.shape, str(spec.dtype), ("",) * len(spec.shape), role)
        for (path, role), spec in zip(results, jax.tree.leaves(traced.out_info), strict=True)
    ]
    program = prepare_program(name, module, arguments, outputs, carried, names, step, reference)
    built = replace(program, platform=lowered.platform, not_lowered=lowered.missing, own_partitioning=custom_partitioning)
    return replace(built, list_removed=lambda: removed_values(_trace_once(step.call, specs).jaxpr.jaxpr, program))


def _find_own_partitioning(jaxpr: Any) -> tuple[str, ...]:
    """Functions with custom partitioning, by line: XLA alone evaluates their rules; JAX lowers them for one device."""
    calls = (eqn for eqn, _ in equations_below(jaxpr) if eqn.primitive.name == "custom_partitioning")
    return tuple(dict.fromkeys(f"`{call.params['call'].jaxpr.debug_info.func_name}` ({source_line(call)})" for call in calls))


def _trace_once(call: Callable[..., Any], specs: Sequence[jax.ShapeDtypeStruct]) -> Any:
    """Trace through a temporary function: JAX caches a trace, often larger than the program, with its function."""

    @wraps(call)  # its name is the module's
    def once(*leaves: Any) -> Any:
        return call(*leaves)

    return jax.jit(once, keep_unused=True).trace(*specs)


def _verify_paths(paths: list[str]) -> None:
    for path, count in Counter(paths).items():
        if count > 1:
            raise TraceError(f"Two leaves of the arguments have the path `{path}`.", ["rename a key, so that a rule can tell them apart"])


def sources_of(leaves: list[Any], specs: list[jax.ShapeDtypeStruct], roles: list[Role]) -> dict[str, Any]:
    """The arguments of a live run: given example arrays, and synthetic ones where only shapes were given."""
    state = [i for i, role in enumerate(roles) if role is not Role.INPUT]
    given = tuple(i for i in state if not isinstance(leaves[i], jax.ShapeDtypeStruct))
    inputs = tuple(
        synthesize(specs[i]) if isinstance(leaves[i], jax.ShapeDtypeStruct) else leaves[i] for i in range(len(leaves)) if i not in state
    )

    def initialize(key: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
        known = dict(zip(given, values, strict=True))
        return tuple(cast_like(known[i], specs[i]) if i in known else make(jax.random.fold_in(key, i), i) for i in state)

    def make(key: Any, i: int) -> Any:
        return random_like(key, specs[i]) if roles[i] is Role.PARAMETER else zeros_like(specs[i])

    return {
        "initialize": initialize,
        "feed": lambda _step: tuple(value() if isinstance(value, Synthetic) else host_array(value) for value in inputs),
        "given_indices": given,
        "given": tuple(leaves[i] for i in given),
        "written": written_shardings(leaves),
    }


def host_array(value: Any) -> Any:
    """An example as a NumPy array; JAX's typed random keys stay unchanged."""
    return value if jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key) else np.asarray(value)


def fed_leaves(data: Callable[[int], Any], step: int, paths: list[str]) -> list[Any]:
    """The arrays of the batch that `data` returns; raises `TraceError` if their number is wrong."""
    leaves = jax.tree.leaves(data(step))
    if len(leaves) != len(paths):
        raise TraceError(
            f"`data({step})` returned {len(leaves)} array{'s' * (len(leaves) != 1)}; the step takes {len(paths)}: {paths_text(paths)}.",
            ["return a batch like the one it was traced with" if leaves else "`return` the batch of the step from `data`"],
        )
    return leaves


def init_leaves(state: Any, paths: list[str]) -> tuple[Any, ...]:
    """The arrays that `init` returned; raises `TraceError` unless they are as many as the carried and parameter leaves."""
    leaves = jax.tree.leaves(state)
    if len(leaves) != len(paths):
        raise TraceError(
            f"`init` returned {len(leaves)} array{'s' * (len(leaves) != 1)}; the step begins with {len(paths)}: {paths_text(paths)}.",
            ["return all of them from `init`, as a tuple in the order of the arguments"],
        )
    return tuple(leaves)


class Synthetic:
    """A host array made on first use: seeded noise for floats, zeros and ones for integers, random keys."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    def __call__(self) -> Any:
        if jax.dtypes.issubdtype(self.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(0), self.shape)
        rng = np.random.default_rng(math.prod(self.shape))
        if jax.numpy.issubdtype(self.dtype, jax.numpy.inexact):
            return rng.standard_normal(self.shape, dtype=np.float32).astype(self.dtype)
        return rng.integers(0, 2, self.shape).astype(self.dtype)


def synthesize(spec: jax.ShapeDtypeStruct) -> Synthetic:
    return Synthetic(spec.shape, spec.dtype)


def random_like(key: Any, spec: jax.ShapeDtypeStruct) -> Any:
    """A random parameter of this shape: normal, scaled by the fan-in so that deep products stay finite."""
    if jax.dtypes.issubdtype(spec.dtype, jax.dtypes.prng_key):
        return jax.random.split(key, spec.shape)
    if not jax.numpy.issubdtype(spec.dtype, jax.numpy.floating):
        return jax.numpy.zeros(spec.shape, spec.dtype)
    fan_in = max(math.prod(spec.shape[:-1]), 1)
    return (jax.random.normal(key, spec.shape) / math.sqrt(fan_in)).astype(spec.dtype)


def zeros_like(spec: jax.ShapeDtypeStruct) -> Any:
    """The initial state where only its shape is known: zeros, or a random key."""
    if jax.dtypes.issubdtype(spec.dtype, jax.dtypes.prng_key):
        return jax.random.split(jax.random.key(0), spec.shape) if spec.shape else jax.random.key(0)
    return jax.numpy.zeros(spec.shape, spec.dtype)


def name_of(fn: Callable[..., Any]) -> str:
    inner = getattr(fn, "func", fn)  # functools.partial
    return getattr(inner, "__name__", type(inner).__name__).replace("<lambda>", "function")


# The error for an exception of a user's function during tracing, with the user's own line and a way to see more.


def untraceable_error(error: Exception, name: str) -> TraceError:
    """The `TraceError` to raise from `error`."""
    if (pmapped := called_pmap_error(error)) is not None:
        return pmapped
    first = opening_text(str(error)) or type(error).__name__
    line = _user_line(error)
    where = f" ({line})" if line else ""
    if isinstance(error, jax.errors.JAXTypeError):
        return TraceError(
            f"JAX cannot trace `{name}`{where}: {first}",
            [
                "use jnp.where or jax.lax.cond instead of `if` on a traced value",
                "keep NumPy calls off traced arrays",
                "make sizes plain integers",
            ],
            str(error),
        )
    return TraceError(f"`{name}` raised {type(error).__name__} while it was traced{where}: {first}", _ways_out(error, name), str(error))


def _ways_out(error: Exception, name: str) -> list[str]:
    """Suggestions; none is a call on real arrays, where errors of traces or gradients may not occur."""
    called = name if name.replace(".", "_").isidentifier() else "f"
    hint = f"see the whole traceback with `jax.eval_shape({called}, ...)`, or, of its gradient, `jax.eval_shape(jax.grad({called}), ...)`"
    if type(error).__name__ == "TraceContextError":  # Flax NNX: a module made outside the function is changed in it
        return ["make the module inside the function, `nnx.merge(graphdef, params, copy=True)`", hint]
    if "does not match the specs of the input" in str(error):  # axes of `jax.make_mesh` are explicit by default
        return [
            'give the argument its type, `jax.ShapeDtypeStruct(shape, dtype, sharding=jax.NamedSharding(mesh, P("data")))`',
            "make the mesh with `axis_types=(jax.sharding.AxisType.Auto,) * len(names)`",
        ]
    return [hint]


def _user_line(error: Exception) -> str:
    """The last user line of the traceback, `mine.py:42`; empty if there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_library(frame.filename)]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


MOST_BYTES = 1 << 60
"""Limit on the bytes of one value; all values of a step together may have eight times as much, the end of signed 64
bits.
"""


def verify_byte_counts(jaxpr: Any, name: str) -> None:
    """Raise `TraceError` for a value, or for all values together, whose bytes do not fit into 64 bits."""
    total = 0
    for aval in _counted_values(jaxpr):
        total += size_of(aval)
        if size_of(aval) > MOST_BYTES:
            shape = " x ".join(f"{size:,}" for size in aval.shape)
            raise TraceError(
                f"`{name}` creates a value of {shape} {aval.dtype}; the limit is {format_bytes(MOST_BYTES)}.", ["make a dimension smaller"]
            )
    if total >= 8 * MOST_BYTES:
        raise TraceError(
            f"The values of `{name}` have {format_bytes(total)} in total; the limit is {format_bytes(8 * MOST_BYTES)}.",
            ["make a dimension smaller"],
        )


def _counted_values(jaxpr: Any) -> Iterator[Any]:
    """Every argument and result that is an array of known shape, those of a loop's body once."""
    variables_of_step = chain(jaxpr.invars, (var for eqn, _ in equations_below(jaxpr) for var in eqn.outvars))
    return (var.aval for var in variables_of_step if hasattr(var.aval, "dtype") and all(isinstance(size, int) for size in var.aval.shape))
