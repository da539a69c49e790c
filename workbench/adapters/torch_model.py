"""`from_torch`: modules of PyTorch through `torch.export` and torchax: a forward pass, or a training step by a loss in PyTorch."""

import copy
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from workbench.adapters.torch_graph import TorchGraph, decompositions, keep_no_grad, torchax, torchax_drawing
from workbench.adapters.traced_model import AdapterError, Dims, ModelParts, TraceOptions, key_spec, model_error, required, trace_model
from workbench.core.program import Program, Reference
from workbench.errors import TraceError, WorkbenchError, opening_text

KEY = "key"
_SMALL = 1 << 16  # elements of a buffer that is a constant of the program
_EXPERTS = re.compile(r"(^|/)experts/\w+$")
"""Weights of all experts in one, as Transformers has them."""


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
    """The forward pass of a PyTorch module; with an `optimizer` of Optax its training step.

        program = wb.from_torch(lambda: LlamaForCausalLM(config), {"input_ids": ids, "labels": ids}, optimizer=optax.adamw(3e-4))
        program = wb.from_torch(Net, batch, loss, optimizer=optax.adamw(3e-4))

    `model` is a module, also on the meta device, or a function that makes one, of which nothing is allocated; a run draws its first values
    as the function does. `batch` is a tensor, a tuple of positional arguments or a dictionary of keyword arguments, of tensors (on the meta
    device, too), arrays or `jax.ShapeDtypeStruct`s. `loss(model, batch)` is a function in PyTorch; without it the loss is what the module
    returns: a scalar, or `loss` of its output. Parameters with `requires_grad` are trained. Buffers that the module changes, and keys for
    its dropout in training mode, go into the next step.

    Paths are `params/layers/0/weight`. Raises `AdapterError` for what is no module, and for what torchax cannot lower; `TraceError` for
    what `torch.export` cannot trace.
    """
    torch = required("torch", "torch", "wb.from_torch", "torch")
    made = _made_without_parameters(model) if callable(model) and not isinstance(model, torch.nn.Module) else model
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
    """A batch taken apart.

    - `arrays`: the batch as JAX sees it, `None` where there is no tensor;
    - `leaves`: a tensor on the meta device for each of its tensors, and what else it has as it is; `structure`: how they stand together.
    """

    arrays: Any
    leaves: tuple[Any, ...]
    structure: Any

    @classmethod
    def of(cls, batch: Any) -> "_Examples":
        leaves, structure = jax.tree.flatten(_plain(batch), is_leaf=lambda leaf: leaf is None)
        return cls(jax.tree.unflatten(structure, map(_as_array, leaves)), tuple(map(_on_meta, leaves)), structure)

    def tensors(self) -> tuple[Any, ...]:
        """Tensors of these shapes, whose memory nobody touches."""
        import torch

        return tuple(torch.empty(each.shape, dtype=each.dtype) for each in self.leaves if isinstance(each, torch.Tensor))

    def batch_of(self, tensors: tuple[Any, ...]) -> Any:
        import torch

        given = iter(tensors)
        return jax.tree.unflatten(self.structure, [next(given) if isinstance(each, torch.Tensor) else each for each in self.leaves])


def _plain(tree: Any) -> Any:
    """Dictionaries, tuples and lists of what a batch or an output holds; a cache or another object in an output is left out."""
    import torch

    if hasattr(tree, "keys"):
        return {str(key): _plain(tree[key]) for key in tree.keys()}  # noqa: SIM118 - `BatchEncoding` has them, and iterates otherwise
    if isinstance(tree, tuple | list):
        return [*map(_plain, tree)] if isinstance(tree, list) else tuple(map(_plain, tree))
    return tree if isinstance(tree, torch.Tensor | bool | int | float | str) or hasattr(tree, "dtype") else None


def _on_meta(leaf: Any) -> Any:
    """A tensor or an array as a tensor without values. Whole numbers of an array are 64 bits wide, as PyTorch's indices are."""
    import torch

    if not hasattr(leaf, "dtype"):
        return leaf
    dtype = str(leaf.dtype).removeprefix("torch.")
    wide = dtype if isinstance(leaf, torch.Tensor) else {"int32": "int64", "float64": "float32"}.get(dtype, dtype)
    return torch.empty(tuple(leaf.shape), dtype=getattr(torch, wide), device="meta")


def _as_array(leaf: Any) -> Any:
    """A tensor's values, or its shape where it has none; `None` for what is no tensor. Types of 64 bits become those of 32."""
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
    """A module's graph, and what its inputs and results are.

    - `inputs`: of each input the path of a parameter or buffer, the value of a constant, or `None` for the next tensor of the batch;
    - `changed`: the paths of the buffers whose new values are the first results; `outputs`: how the other results stand together.
    """

    graph: TorchGraph
    inputs: tuple[Any, ...]
    changed: tuple[str, ...]
    outputs: Any

    @classmethod
    def of(cls, model: Any, examples: _Examples, loss: Callable[..., Any] | None, *, is_trained: bool) -> "_Exported":
        """Raises `TraceError` for a module that cannot be exported."""
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        tensors, mode = examples.tensors(), FakeTensorMode(shape_env=ShapeEnv(tracked_fakes=[]), allow_non_fake_inputs=True)
        is_batch = [bool(each.ndim) and tensors[0].shape[:1] == each.shape[:1] for each in tensors]  # micro-batches have a smaller one
        shapes = tuple({0: torch.export.Dim.AUTO} if each else {} for each in is_batch)
        step = _step_module(_valueless(model, mode), examples, loss, is_trained=is_trained)
        with mode, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's, about itself
            try:
                exported = torch.export.export(step, tensors, dynamic_shapes=(shapes,), strict=False)
                keep_no_grad(exported.graph_module)
                exported = exported.run_decompositions(decompositions())
            except WorkbenchError:
                raise
            except Exception as error:
                raise _export_error(error, type(model).__name__) from error
        signature, graph = exported.graph_signature, TorchGraph.of(exported.graph, _ROOT, loss)
        paths = {f"{_ROOT}.{name}": path for name, path in _paths(model).items()}
        changed = tuple(paths[each] for each in signature.buffers_to_mutate.values())
        fixed = {f"{_ROOT}.{name}": _as_array(each) for name, each in model.named_buffers() if each.numel() <= _SMALL}
        known = {name: each for name, each in fixed.items() if not isinstance(each, jax.ShapeDtypeStruct) and paths[name] not in changed}
        known |= {name: _as_array(each) for name, each in exported.constants.items() if name not in paths}
        return cls(graph, tuple(known.get(each.target, paths.get(each.target)) for each in signature.input_specs), changed, step.outputs)

    def call(self, bound: list[Any], batch: Any) -> Any:
        """The module's output or its loss by parameters and state, `bound`, whose state becomes that after it."""
        params, state = bound
        values, tensors = {**state, **params}, iter(jax.tree.leaves(batch))
        inputs = [
            next(tensors) if each is None else values[each] if isinstance(each, str) else jax.numpy.asarray(each) for each in self.inputs
        ]
        with torchax_drawing(state[KEY]):
            results = self.graph(inputs)
        bound[1] = {**state, **dict(zip(self.changed, results, strict=False))}
        return jax.tree.unflatten(self.outputs, results[len(self.changed) :])


_ROOT = "model"
"""What the exported step calls the user's module."""


def _paths(model: Any) -> dict[str, str]:
    """The path of each parameter and buffer by its name; of one that is shared, that of its first name."""
    first: dict[int, str] = {}
    every = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    return {name: first.setdefault(id(each), name.replace(".", "/")) for name, each in every}


def _step_module(model: Any, examples: _Examples, loss: Callable[..., Any] | None, *, is_trained: bool) -> Any:
    """A module whose `forward` takes the tensors of a batch, and returns those of the output; `outputs` says how they stood together."""
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
    """The loss that a module returns: a scalar, or what it calls so."""
    import torch

    found = output["loss"] if hasattr(output, "keys") and "loss" in output.keys() else output  # noqa: SIM118 - as in `_plain`
    if isinstance(found, torch.Tensor) and not found.ndim:
        return found
    raise AdapterError(
        f"`{type(model).__name__}` returns no loss: neither a scalar nor an output with `loss`.",
        ["give `loss=`, a function `loss(model, batch)` in PyTorch", "give a model of Transformers `labels` in its batch"],
    )


def _valueless(model: Any, mode: Any) -> Any:
    """The module with parameters and buffers that have shapes only, fakes of this mode; what is shared is shared again."""
    import torch

    twins: dict[int, Any] = {}
    for each in (*model.parameters(), *model.buffers()):
        with mode:
            twin = torch.empty(each.shape, dtype=each.dtype)
        twins[id(each)] = torch.nn.Parameter(twin, each.requires_grad) if isinstance(each, torch.nn.Parameter) else twin
    return copy.deepcopy(model, twins)


def _made_without_parameters(make: Callable[[], Any]) -> Any:
    """The module that a function makes, its large tensors on the meta device; buffers that are computed have their values."""
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
    used = {each for each in exported.inputs if isinstance(each, str)}
    arrays = {path: _as_array(each) for path, each in _tensors(model).items() if path in used}
    trained = {path for path, each in _tensors(model).items() if each.requires_grad}

    def init(key: Any) -> Any:
        values = _drawn(make, key)
        return {path: values[path] for path in params}, {path: values[path] for path in state} | {KEY: jax.random.fold_in(key, 1)}

    params = {path: each for path, each in arrays.items() if path in trained}
    state = {path: each for path, each in arrays.items() if path not in trained}
    dims = {f"params/{path}": "experts _ _" for path, each in params.items() if _EXPERTS.search(path) and each.ndim == 3}
    return ModelParts(
        params, {**state, KEY: key_spec()}, lambda *both: [*both], lambda bound: bound[1], init if make else None, (KEY,), dims
    )


def _drawn(make: Any, key: Any) -> dict[str, Any]:
    """The first values of a module's parameters and buffers: its own initialisation, with random numbers from `key`."""
    import torch

    with torchax_drawing(key) as env, env, torch.device("jax"):
        return {path: env.t2j_iso(each) for path, each in _tensors(make()).items()}


def _tensors(model: Any) -> dict[str, Any]:
    return {name.replace(".", "/"): each for name, each in (*model.named_parameters(), *model.named_buffers())}
