"""Graphs of `torch.export` as calls that torchax computes in JAX, each in its module's scope and at its source line."""

import inspect
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial, reduce
from types import BuiltinFunctionType, FunctionType
from typing import Any

import jax

from workbench.adapters.traced_model import AdapterError, required
from workbench.errors import opening_text
from workbench.propagation.module.source_location import is_library, short_line

Frame = tuple[str, int, str]
"""File, line and function."""


@dataclass(frozen=True, slots=True)
class GraphValue:
    """A reference to a value of the graph in the arguments of a call."""

    name: str


@dataclass(frozen=True, slots=True)
class TorchCall:
    """One operator call; `target` is a name in `torch.ops` or a Python function, `frame` the user's line."""

    name: str
    target: Any
    args: Any
    kwargs: Any
    scope: str
    frame: Frame | None

    @classmethod
    def of(cls, node: Any, root: str, frame: Frame | None) -> "TorchCall":
        modules = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
        scope = modules[-1].removeprefix(root).removeprefix(".").replace(".", "/") if modules else ""
        frames = list(_frames(node.meta.get("stack_trace") or ""))
        user_frame = next(
            (candidate for candidate in reversed(frames) if not is_library(candidate[0])), frame or (frames[-1] if frames else None)
        )
        target = node.target if isinstance(node.target, FunctionType | BuiltinFunctionType) else str(node.target)
        args, kwargs = _with_values((node.args, node.kwargs))
        return cls(node.name, target, args, kwargs, scope, user_frame)


@dataclass(frozen=True, slots=True)
class TorchGraph:
    """The functional graph of a module, called with its input values."""

    inputs: tuple[str, ...]
    calls: tuple[TorchCall, ...]
    results: Any

    @classmethod
    def of(cls, graph: Any, root: str, loss: Any) -> "TorchGraph":
        """The calls of an FX graph, scopes relative to its submodule `root`; other calls have the line of `loss`."""
        code = getattr(loss, "__code__", None)
        frame = code and (code.co_filename, code.co_firstlineno, code.co_name)
        return cls(
            tuple(node.name for node in graph.nodes if node.op == "placeholder"),
            tuple(TorchCall.of(node, root, frame) for node in graph.nodes if node.op == "call_function" and not _is_check(node.target)),
            _with_values(graph.output_node().args[0]),
        )

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Compute the results. Raises `AdapterError` if torchax cannot lower an operator."""
        from torch.fx.node import map_aggregate

        values = dict(zip(self.inputs, inputs, strict=True))

        def known(arg: Any) -> Any:
            return values.get(arg.name, arg) if isinstance(arg, GraphValue) else _narrow(arg)

        for call in self.calls:
            with jax.named_scope(call.scope) if call.scope else nullcontext():
                values[call.name] = _compute(call, *map_aggregate((call.args, call.kwargs), known))
        return map_aggregate(self.results, known)


def _with_values(args: Any) -> Any:
    from torch.fx.node import map_arg

    return map_arg(args, lambda node: GraphValue(node.name))


def _is_check(target: Any) -> bool:
    return str(target).startswith(("aten._assert", "aten.sym_constrain"))


def _narrow(arg: Any) -> Any:
    import torch

    return {torch.int64: torch.int32, torch.float64: torch.float32}.get(arg, arg) if isinstance(arg, torch.dtype) else arg


def _frames(trace: str) -> Iterator[Frame]:
    for text in map(str.strip, trace.splitlines()):
        if text.startswith('File "'):
            file, line, function = text.removeprefix('File "').rsplit(", ", 2)
            yield file.rstrip('"'), int(line.removeprefix("line ")), function.removeprefix("in ")


def inline_no_grad(graph_module: Any) -> None:
    """Inline the regions of `torch.no_grad()` with detached results, since PyTorch's decompositions lose them."""
    import torch

    graph = graph_module.graph
    for node in graph.find_nodes(op="call_function", target=torch.ops.higher_order.wrap_with_set_grad_enabled):
        is_enabled, part, *inputs = node.args
        inner = getattr(graph_module, part.target).graph
        with graph.inserting_before(node):
            results = graph.graph_copy(inner, dict(zip(inner.find_nodes(op="placeholder"), inputs, strict=True)))
            if not is_enabled:
                results = [graph.call_function(torch.ops.aten.detach.default, (result,)) for result in results]
        for item in list(node.users):
            item.replace_all_uses_with(results[item.args[1]])
            graph.erase_node(item)
        graph.erase_node(node)
    graph_module.recompile()


def _compute(call: TorchCall, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if callable(call.target):  # `operator.getitem` and size arithmetic
        return call.target(*args)
    try:
        return _at_line(call.frame)(lambda: _lowered(str(call.target), args, kwargs))
    except Exception as error:
        where = f"`{call.scope or 'the module'}` calls" + (f" at {short_line(*call.frame[:2])}" if call.frame else "")
        raise AdapterError(
            f"torchax cannot lower `{call.target}`, which {where}: {opening_text(str(error)) or type(error).__name__}.",
            [
                "compute it by other operators",
                f"register a JAX function, `torchax.ops.ops_registry.register_torch_dispatch_op(torch.ops.{call.target}, function)`",
            ],
        ) from error


@cache
def _at_line(frame: Frame | None) -> Callable[[Callable[[], Any]], Any]:
    """A function that calls its argument from the user's line, since JAX records the lines of Python frames."""
    code = (lambda compute: compute()).__code__
    if frame is not None:
        code = code.replace(co_filename=frame[0], co_firstlineno=frame[1], co_name=frame[2], co_qualname=frame[2])
    return FunctionType(code, {})


def _lowered(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Compute an operator by its JAX function, or through torchax's dispatch for operators it implements in PyTorch."""
    import torch

    target = reduce(getattr, name.split("."), torch.ops)
    if (function := _jax_function(target)) is not None:
        return function(*args, *_defaults(target, function, len(args)), **kwargs)
    if target.namespace != "aten":
        raise NotImplementedError("it is a custom operator")
    env = torchax().default_env()
    wrapped, keywords = env.j2t_iso((tuple(args), dict(kwargs)))
    with env:
        return env.t2j_iso(target(*wrapped, **keywords))


def _defaults(target: Any, function: Callable[..., Any], given: int) -> list[Any]:
    """PyTorch's defaults of omitted arguments that torchax's function requires, such as the dilation of `conv2d`."""
    positional = [param for param in inspect.signature(function).parameters.values() if param.kind is param.POSITIONAL_OR_KEYWORD]
    count = sum(param.default is param.empty for param in positional)
    return [param.default_value for param in target._schema.arguments[given:count]]  # noqa: SLF001 - torchax reads it too


def decompositions() -> dict[Any, Any]:
    """PyTorch's and torchax's decompositions of the operators without a JAX function; other operators stay whole."""
    import torch
    from torchax.decompositions import DECOMPOSITIONS

    table = {**torch.export.default_decompositions(), **DECOMPOSITIONS}
    return {target: function for target, function in table.items() if not isinstance(target, str) and _jax_function(target) is None}


def _jax_function(target: Any) -> Callable[..., Any] | None:
    from torchax.ops.ops_registry import all_aten_ops

    if target.name() in _FUNCTIONS:
        return _FUNCTIONS[target.name()]
    entry = all_aten_ops.get(target) or all_aten_ops.get(target.overloadpacket)
    if entry is None or not entry.is_jax_function:
        return None
    return partial(entry.func, env=torchax().default_env()) if entry.needs_env else entry.func


def _grouped_product(rows: Any, weights: Any, ends: Any, *_options: Any) -> Any:
    """Multiply each expert's rows by its weights; `ends` are the end rows of the experts."""
    return jax.lax.ragged_dot(rows, weights, jax.numpy.diff(ends, prepend=0).astype("int32"))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "aten::detach": jax.lax.stop_gradient,
    "aten::sym_size": lambda array, dim: array.shape[dim],
    "aten::_grouped_mm": _grouped_product,
    "transformers::grouped_mm_fallback": _grouped_product,
}
"""Operators that torchax 0.0.13 lacks, `detach` (it passes gradients), and `sym_size` (a micro-batch is smaller)."""
_LOCK = threading.RLock()


@contextmanager
def torchax_drawing(key: Any) -> Iterator[Any]:
    """torchax's environment with random numbers from `key`; its warnings about 64-bit types are suppressed."""
    with _LOCK, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Explicitly requested dtype")
        env = torchax().default_env()
        with env.override_property(prng=key):
            yield env


@cache
def torchax() -> Any:
    """The torchax module; 0.0.13 names overloads that PyTorch 2.13 removed, so strings replace them during the import."""
    import torch

    packet = type(torch.ops.aten.add)
    original = packet.__getattr__

    def lenient(self: Any, name: str) -> Any:
        try:
            return original(self, name)
        except AttributeError:
            if "dimname" in name.lower() or "names" in name:
                return f"{self}.{name}"
            raise

    packet.__getattr__ = lenient
    try:
        module = required("torchax", "torchax", "wb.from_torch", "torch")
        required("torchax.decompositions", "torchax", "wb.from_torch", "torch")
    finally:
        packet.__getattr__ = original
    module.default_env().override_op_definition(torch.ops.aten.normal_.default, _draw_normal)
    return module


def _draw_normal(tensor: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    """Replacement of torchax's `normal_` (0.0.13), which uses the tensor as the mean."""
    key = torchax().default_env().get_and_rotate_prng_key(generator)
    return tensor.apply_jax_(lambda values: mean + std * jax.random.normal(key, values.shape, values.dtype))
