"""`from_flax`: models of Flax, of Linen or NNX, and those of Transformers that are made of them."""

from collections.abc import Callable
from typing import Any

from workbench.adapters.linen_model import linen_parts
from workbench.adapters.nnx_model import nnx_parts, shapes_of, trace_nnx_step
from workbench.adapters.pretrained_flax import is_pretrained, pretrained_parts
from workbench.adapters.required_package import AdapterError, required
from workbench.adapters.traced_model import Dims, TraceOptions, trace_model
from workbench.core.program import Program, Reference
from workbench.errors import wrong_type


def from_flax(
    model: Any,
    loss: Callable[..., Any],
    batch: Any,
    *,
    optimizer: Any = None,
    variables: Any = None,
    wrt: Any = None,
    rngs: tuple[str, ...] = ("dropout",),
    dims: Dims = None,
    name: str | None = None,
    data: Callable[[int], Any] | None = None,
    reference: Reference | None = None,
) -> Program:
    """The training step of a Flax model by `loss(model, batch)`; without an `optimizer`, the program of that function.

        program = wb.from_flax(Encoder(), loss, batch, optimizer=optax.adamw(3e-4))                        # Linen
        program = wb.from_flax(lambda rngs: Encoder(rngs=rngs), loss, batch, optimizer=optax.adamw(3e-4))  # NNX
        program = wb.from_flax(make_model_and_optimizer, train_step, batch)                                # NNX, a step of one's own

    **Linen:** in the loss, `model(x, train=True)` applies the module, with dropout keys and all collections it changes; what it changes
    goes into the next step. What `loss` first calls it with says which variables there are; `variables` gives those of a trained model.
    `rngs` are the streams of random numbers besides `params`. A model of Transformers is given as it is (`_do_init=False`).
    **NNX:** a module, its shapes (`nnx.eval_shape`), or a function that makes it, which allocates nothing; batch statistics, counts and
    keys are carried. `wrt` says which variables are trained, `nnx.Param` if nothing else. Several objects in a tuple, or a function that
    makes them, are for a step `step(model, optimizer, batch)`.

    Paths are `params/encoder/layers_0/attn/query/kernel`; `dims` as in `wb.trace_training`, besides names that the model states itself
    (`nn.with_logical_partitioning`, `nnx.with_partitioning`). Raises `TraceError` if it cannot be traced, `AdapterError` for anything else.
    """
    required("flax", "flax", "wb.from_flax")
    from flax import linen, nnx

    options = TraceOptions(optimizer, dims, name, data, reference)
    if isinstance(model, linen.Module):
        return trace_model(linen_parts(model, loss, batch, variables, tuple(rngs)), loss, batch, options)
    if is_pretrained(model):
        return trace_model(pretrained_parts(model, variables), loss, batch, options)
    made = shapes_of(model) if callable(model) and not isinstance(model, nnx.Module) else model
    if isinstance(made, tuple | list):
        return trace_nnx_step(made, model, loss, batch, options)
    if isinstance(made, nnx.Module):
        return trace_model(nnx_parts(made, model, nnx.Param if wrt is None else wrt), loss, batch, options)
    raise AdapterError(
        wrong_type("model", made, "a module of Linen or NNX, or a function that makes one"),
        ["trace plain functions by `wb.trace_training`, `wb.trace_step` or `wb.trace`"],
    )
