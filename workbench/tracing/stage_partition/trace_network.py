"""From a program or a loss to its network."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax

from workbench.core.derived_value_cache import CACHE
from workbench.core.pipeline_spec import batch_dim, plan_input_splits
from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.errors import PipelineError
from workbench.tracing.grad_accumulation.micro_batch_marks import micro_batch_spec
from workbench.tracing.jaxpr.apply_remat_policy import Rematerialized
from workbench.tracing.jaxpr.flatten_loss import flatten
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.trace_function import guard_tracing

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
