"""`from_torch`: programs of PyTorch modules by `torch.export` and torchax, for a forward pass or a training step."""

import copy
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from workbench.adapters.torch_graph import TorchGraph, decompositions, inline_no_grad, torchax, torchax_drawing
from workbench.adapters.traced_model import AdapterError, Dims, ModelParts, TraceOptions, key_spec, model_error, required, trace_model
from workbench.core.program import Program, Reference
from workbench.errors import TraceError, WorkbenchError, opening_text

KEY = "key"
_SMALL = 1 << 16  # maximum elements of a buffer that becomes a constant
_EXPERTS = re.compile(r"(^|/)experts/\w+$")
"""Stacked weights of all experts, as in Transformers."""


def from_torch(
    model: Any,
    batch: Any,
    loss: Callable[..., Any] | None = None,
    *,
    optimizer: Any = None,
    dims: Dims = None,
    name: str | None = None,
    data: Callable[[int], Any] | None = None,
    reference: Reference | None = None,
) -> Program:
    """The forward pass of a PyTorch module, or with an Optax `optimizer` its training step.

        program = wb.from_torch(lambda: LlamaForCausalLM(config), {"input_ids": ids, "labels": ids}, optimizer=optax.adamw(3e-4))
        program = wb.from_torch(Net, batch, loss, optimizer=optax.adamw(3e-4))

    `model` is a module, which may be on the meta device, or a function that makes one, for which nothing is allocated;
    a run initialises it as the function does. `batch` is a tensor, a tuple of positional arguments or a dictionary of
    keyword arguments, with tensors (also on the meta device), arrays or `jax.ShapeDtypeStruct`s. `loss(model, batch)`
    is a PyTorch function; without it the loss is the module's output if that is a scalar, else its entry `loss`.
    Parameters with `requires_grad` are trained. Mutated buffers, and keys for dropout in training mode, are carried to
    the next step.

    Paths are `params/layers/0/weight`. Raises `AdapterError` if `model` is not a module or torchax cannot lower it,
    `TraceError` if `torch.export` cannot trace it.
    """
    torch = required("torch", "torch", "wb.from_torch", "torch")
    made = _make_on_meta(model) if callable(model) and not isinstance(model, torch.nn.Module) else model
    if not isinstance(made, torch.nn.Module):
        raise model_error(made, "a module of PyTorch, or a function that makes one")
    torchax()
    examples = _Examples.of(batch)
    exported = _Exported.of(made, examples, loss, is_trained=optimizer is not None)
    arrays_of = data and (lambda step: _Examples.of(data(step)).arrays)
    options = TraceOptions(optimizer, dims, name or type(made).__name__, arrays_of, reference)
    return trace_model(_parts(exported, made, None if made is model else model), exported.call, examples.arrays, options)


@dataclass(frozen=True, slots=True)
class _Examples:
    """A flattened batch.

    - `arrays`: the batch as JAX arrays, `None` for values that are not tensors;
    - `leaves`: meta tensors for its tensors, other values unchanged; `structure`: its tree structure.
    """

    arrays: Any
    leaves: tuple[Any, ...]
    structure: Any

    @classmethod
    def of(cls, batch: Any) -> "_Examples":
        leaves, structure = jax.tree.flatten(_plain(batch), is_leaf=lambda leaf: leaf is None)
        return cls(jax.tree.unflatten(structure, map(_as_array, leaves)), tuple(map(_on_meta, leaves)), structure)

    def tensors(self) -> tuple[Any, ...]:
        import torch

        return tuple(torch.empty(leaf.shape, dtype=leaf.dtype) for leaf in self.leaves if isinstance(leaf, torch.Tensor))

    def batch_of(self, tensors: tuple[Any, ...]) -> Any:
        import torch

        remaining = iter(tensors)
        return jax.tree.unflatten(self.structure, [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves])


def _plain(tree: Any) -> Any:
    """The nested dictionaries, tuples and lists of a batch or output; other objects, such as a cache, become `None`."""
    import torch

    if hasattr(tree, "keys"):
        return {str(key): _plain(tree[key]) for key in tree.keys()}  # noqa: SIM118 - iterating over a `BatchEncoding` does not yield its keys
    if isinstance(tree, tuple | list):
        return [*map(_plain, tree)] if isinstance(tree, list) else tuple(map(_plain, tree))
    return tree if isinstance(tree, torch.Tensor | bool | int | float | str) or hasattr(tree, "dtype") else None


def _on_meta(leaf: Any) -> Any:
    """A tensor or array as a meta tensor. Integers of arrays become 64-bit, as PyTorch's indices are."""
    import torch

    if not hasattr(leaf, "dtype"):
        return leaf
    dtype = str(leaf.dtype).removeprefix("torch.")
    wide = dtype if isinstance(leaf, torch.Tensor) else {"int32": "int64", "float64": "float32"}.get(dtype, dtype)
    return torch.empty(tuple(leaf.shape), dtype=getattr(torch, wide), device="meta")


def _as_array(leaf: Any) -> Any:
    """The values of a tensor, its shape if it has none, or `None` if it is not a tensor. 64-bit types become 32-bit."""
    import torch
    from torchax.ops.mappings import t2j_dtype

    if not isinstance(leaf, torch.Tensor):
        return leaf if hasattr(leaf, "dtype") else None
    dtype = jax.dtypes.canonicalize_dtype(t2j_dtype(leaf.dtype))
    if leaf.is_meta or type(leaf) not in (torch.Tensor, torch.nn.Parameter):
        return jax.ShapeDtypeStruct(tuple(leaf.shape), dtype)
    values = leaf.detach().cpu()
    return values.view(torch.int16).numpy().view(dtype) if values.dtype is torch.bfloat16 else values.numpy().astype(dtype, copy=False)


@dataclass(frozen=True, slots=True)
class _Exported:
    """An exported module: its graph, inputs and results.

    - `inputs`: for each input a parameter or buffer path, a constant, or `None` for the next tensor of the batch;
    - `changed`: the paths of the buffers whose new values are the first results; `outputs`: the others' tree structure.
    """

    graph: TorchGraph
    inputs: tuple[Any, ...]
    changed: tuple[str, ...]
    outputs: Any

    @classmethod
    def of(cls, model: Any, examples: _Examples, loss: Callable[..., Any] | None, *, is_trained: bool) -> "_Exported":
        """Export a module. Raises `TraceError` if it cannot be exported."""
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        tensors, mode = examples.tensors(), FakeTensorMode(shape_env=ShapeEnv(tracked_fakes=[]), allow_non_fake_inputs=True)
        is_batch = [bool(each.ndim) and tensors[0].shape[:1] == each.shape[:1] for each in tensors]  # dynamic, as micro-batches are smaller
        shapes = tuple({0: torch.export.Dim.AUTO} if each else {} for each in is_batch)
        step = _step_module(_fake_copy(model, mode), examples, loss, is_trained=is_trained)
        with mode, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's internal warnings
            try:
                exported = torch.export.export(step, tensors, dynamic_shapes=(shapes,), strict=False)
                inline_no_grad(exported.graph_module)
                exported = exported.run_decompositions(decompositions())
            except WorkbenchError:
                raise
            except Exception as error:
                raise _export_error(error, type(model).__name__) from error
        signature, graph = exported.graph_signature, TorchGraph.of(exported.graph, _ROOT, loss)
        paths = {f"{_ROOT}.{name}": path for name, path in _paths(model).items()}
        changed = tuple(paths[each] for each in signature.buffers_to_mutate.values())
        fixed = {f"{_ROOT}.{name}": _as_array(each) for name, each in model.named_buffers() if each.numel() <= _SMALL}
        consts = {name: leaf for name, leaf in fixed.items() if not isinstance(leaf, jax.ShapeDtypeStruct) and paths[name] not in changed}
        consts |= {name: _as_array(leaf) for name, leaf in exported.constants.items() if name not in paths}
        return cls(graph, tuple(consts.get(spec.target, paths.get(spec.target)) for spec in signature.input_specs), changed, step.outputs)

    def call(self, bound: list[Any], batch: Any) -> Any:
        """Compute the module's output or loss from `bound`, [parameters, state]; replaces its state by the new one."""
        params, state = bound
        values, tensors = {**state, **params}, iter(jax.tree.leaves(batch))
        inputs = [
            next(tensors) if item is None else values[item] if isinstance(item, str) else jax.numpy.asarray(item) for item in self.inputs
        ]
        with torchax_drawing(state[KEY]):
            results = self.graph(inputs)
        bound[1] = {**state, **dict(zip(self.changed, results, strict=False))}
        return jax.tree.unflatten(self.outputs, results[len(self.changed) :])


_ROOT = "model"
"""The name of the user's module in the exported step."""


def _paths(model: Any) -> dict[str, str]:
    """The path of each parameter and buffer; a shared one has the path of its first name."""
    first: dict[int, str] = {}
    named_tensors = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    return {name: first.setdefault(id(tensor), name.replace(".", "/")) for name, tensor in named_tensors}


def _step_module(model: Any, examples: _Examples, loss: Callable[..., Any] | None, *, is_trained: bool) -> Any:
    """A module whose `forward` maps batch tensors to output tensors; `outputs` is the output's tree structure."""
    import torch

    class ExportedStep(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: Any) -> Any:
            batch = examples.batch_of(tensors)
            if loss:
                output = loss(self.model, batch)
            else:
                output = model(**batch) if isinstance(batch, dict) else model(*batch) if isinstance(batch, tuple | list) else model(batch)
            leaves, self.outputs = jax.tree.flatten(_own_loss(output, model) if is_trained and not loss else _plain(output))
            return tuple(leaves)

    return ExportedStep()


def _own_loss(output: Any, model: Any) -> Any:
    import torch

    value = output["loss"] if hasattr(output, "keys") and "loss" in output.keys() else output  # noqa: SIM118 - see `_plain`
    if isinstance(value, torch.Tensor) and not value.ndim:
        return value
    raise AdapterError(
        f"`{type(model).__name__}` returns no loss: neither a scalar nor an output with `loss`.",
        ["give `loss=`, a function `loss(model, batch)` in PyTorch", "give a model of Transformers `labels` in its batch"],
    )


def _fake_copy(model: Any, mode: Any) -> Any:
    """A copy of the module with fake parameters and buffers of this mode; shared tensors stay shared."""
    import torch

    fakes: dict[int, Any] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        with mode:
            fake = torch.empty(tensor.shape, dtype=tensor.dtype)
        fakes[id(tensor)] = torch.nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else fake
    return copy.deepcopy(model, fakes)


def _make_on_meta(make: Callable[[], Any]) -> Any:
    """Call the user's function with large tensors on the meta device; computed buffers keep their values."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Unallocated(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            on_meta = {"device": "meta"} if func in (torch.empty, torch.rand, torch.randn) else {}
            return func(*args, **{**(kwargs or {}), **on_meta})

    with Unallocated():
        return make()


def _export_error(error: Exception, name: str) -> TraceError:
    return TraceError(
        f"`torch.export` cannot trace `{name}`: {opening_text(str(error)) or type(error).__name__}",
        ["use `torch.where` for `if` on a tensor", "see all of it with `torch.export.export(model, inputs, strict=False)`"],
        str(error),
    )


def _parts(exported: _Exported, model: Any, make: Callable[[], Any] | None) -> ModelParts:
    used_paths = {tensor for tensor in exported.inputs if isinstance(tensor, str)}
    arrays = {path: _as_array(tensor) for path, tensor in _tensors(model).items() if path in used_paths}
    trained = {path for path, tensor in _tensors(model).items() if tensor.requires_grad}

    def init(key: Any) -> Any:
        values = _drawn(make, key)
        return {path: values[path] for path in params}, {path: values[path] for path in state} | {KEY: jax.random.fold_in(key, 1)}

    params = {path: tensor for path, tensor in arrays.items() if path in trained}
    state = {path: tensor for path, tensor in arrays.items() if path not in trained}
    dims = {f"params/{path}": "experts _ _" for path, tensor in params.items() if _EXPERTS.search(path) and tensor.ndim == 3}
    return ModelParts(
        params, {**state, KEY: key_spec()}, lambda *both: [*both], lambda bound: bound[1], init if make else None, (KEY,), dims
    )


def _drawn(make: Any, key: Any) -> dict[str, Any]:
    import torch

    with torchax_drawing(key) as env, env, torch.device("jax"):
        return {path: env.t2j_iso(tensor) for path, tensor in _tensors(make()).items()}


def _tensors(model: Any) -> dict[str, Any]:
    return {name.replace(".", "/"): tensor for name, tensor in (*model.named_parameters(), *model.named_buffers())}
