"""The graph that `torch.export` makes of a module, as plain calls that torchax computes in JAX, each in its module's scope, at its line."""

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
"""A file, a line and the function it is in."""


@dataclass(frozen=True, slots=True)
class GraphValue:
    """A value of the graph, among the arguments of a call."""

    name: str


@dataclass(frozen=True, slots=True)
class TorchCall:
    """One operator: its result's name, its own in `torch.ops` or a function of Python, its arguments, its module, the user's line."""

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
        own = next((each for each in reversed(frames) if not is_library(each[0])), frame or (frames[-1] if frames else None))
        target = node.target if isinstance(node.target, FunctionType | BuiltinFunctionType) else str(node.target)
        args, kwargs = _with_values((node.args, node.kwargs))
        return cls(node.name, target, args, kwargs, scope, own)


@dataclass(frozen=True, slots=True)
class TorchGraph:
    """A module's functional graph: values by name in, results out."""

    inputs: tuple[str, ...]
    calls: tuple[TorchCall, ...]
    results: Any

    @classmethod
    def of(cls, graph: Any, root: str, loss: Any) -> "TorchGraph":
        """The calls of an FX graph; their scopes are seen from its submodule `root`, and those outside of it are at the line of `loss`."""
        code = getattr(loss, "__code__", None)
        frame = code and (code.co_filename, code.co_firstlineno, code.co_name)
        return cls(
            tuple(node.name for node in graph.nodes if node.op == "placeholder"),
            tuple(TorchCall.of(node, root, frame) for node in graph.nodes if node.op == "call_function" and not _is_check(node.target)),
            _with_values(graph.output_node().args[0]),
        )

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """The results. Raises `AdapterError` for an operator that torchax cannot lower."""
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
    """JAX computes in 32 bits where PyTorch has 64."""
    import torch

    return {torch.int64: torch.int32, torch.float64: torch.float32}.get(arg, arg) if isinstance(arg, torch.dtype) else arg


def _frames(trace: str) -> Iterator[Frame]:
    """The frames of a call stack as FX writes it, the innermost last."""
    for text in map(str.strip, trace.splitlines()):
        if text.startswith('File "'):
            file, line, function = text.removeprefix('File "').rsplit(", ", 2)
            yield file.rstrip('"'), int(line.removeprefix("line ")), function.removeprefix("in ")


def keep_no_grad(graph_module: Any) -> None:
    """Puts what stands under `torch.no_grad()` into the graph itself, its results detached: PyTorch's decompositions forget it."""
    import torch

    graph = graph_module.graph
    for node in graph.find_nodes(op="call_function", target=torch.ops.higher_order.wrap_with_set_grad_enabled):
        is_enabled, part, *inputs = node.args
        inner = getattr(graph_module, part.target).graph
        with graph.inserting_before(node):
            results = graph.graph_copy(inner, dict(zip(inner.find_nodes(op="placeholder"), inputs, strict=True)))
            if not is_enabled:
                results = [graph.call_function(torch.ops.aten.detach.default, (each,)) for each in results]
        for item in list(node.users):
            item.replace_all_uses_with(results[item.args[1]])
            graph.erase_node(item)
        graph.erase_node(node)
    graph_module.recompile()


def _compute(call: TorchCall, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if callable(call.target):  # `operator.getitem`, and arithmetic on sizes
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
    """A function that calls its argument from the user's line: JAX notes the lines of the Python frames in which it is called."""
    code = (lambda compute: compute()).__code__
    if frame is not None:
        code = code.replace(co_filename=frame[0], co_firstlineno=frame[1], co_name=frame[2], co_qualname=frame[2])
    return FunctionType(code, {})


def _lowered(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An operator by a function of JAX; one that torchax has in PyTorch by its dispatch."""
    import torch

    target = reduce(getattr, name.split("."), torch.ops)
    if (function := _jax_function(target)) is not None:
        return function(*args, *_defaults(target, function, len(args)), **kwargs)
    if target.namespace != "aten":
        raise NotImplementedError("it is a custom operator")
    env = torchax().default_env()
    wrapped, named = env.j2t_iso((tuple(args), dict(kwargs)))
    with env:
        return env.t2j_iso(target(*wrapped, **named))


def _defaults(target: Any, function: Callable[..., Any], given: int) -> list[Any]:
    """What PyTorch takes for arguments that are left out, and torchax's function asks for: of `conv2d` the dilation."""
    positional = [each for each in inspect.signature(function).parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    wanted = sum(each.default is each.empty for each in positional)
    return [each.default_value for each in target._schema.arguments[given:wanted]]  # noqa: SLF001 - torchax reads it, too


def decompositions() -> dict[Any, Any]:
    """PyTorch's and torchax's decompositions of the operators for which there is no function of JAX: others are kept whole."""
    import torch
    from torchax.decompositions import DECOMPOSITIONS

    known = {**torch.export.default_decompositions(), **DECOMPOSITIONS}
    return {target: function for target, function in known.items() if not isinstance(target, str) and _jax_function(target) is None}


def _jax_function(target: Any) -> Callable[..., Any] | None:
    from torchax.ops.ops_registry import all_aten_ops

    if target.name() in _FUNCTIONS:
        return _FUNCTIONS[target.name()]
    found = all_aten_ops.get(target) or all_aten_ops.get(target.overloadpacket)
    if found is None or not found.is_jax_function:
        return None
    return partial(found.func, env=torchax().default_env()) if found.needs_env else found.func


def _grouped_product(rows: Any, weights: Any, ends: Any, *_options: Any) -> Any:
    """The rows of each expert by its weights; `ends` are where the experts' rows end."""
    return jax.lax.ragged_dot(rows, weights, jax.numpy.diff(ends, prepend=0).astype("int32"))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "aten::detach": jax.lax.stop_gradient,
    "aten::sym_size": lambda array, dim: array.shape[dim],
    "aten::_grouped_mm": _grouped_product,
    "transformers::grouped_mm_fallback": _grouped_product,
}
"""What torchax 0.0.13 lacks, and `detach`, which it lets pass gradients. A size is that of the present trace: a micro-batch is smaller."""
_LOCK = threading.RLock()


@contextmanager
def torchax_drawing(key: Any) -> Iterator[Any]:
    """torchax's environment, which draws its random numbers from `key`. Its warnings of 64-bit types say nothing new."""
    with _LOCK, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Explicitly requested dtype")
        env = torchax().default_env()
        with env.override_property(prng=key):
            yield env


@cache
def torchax() -> Any:
    """The module torchax. Version 0.0.13 names overloads for named tensors, which PyTorch 2.13 no longer has: texts stand for them."""
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
    """In place of torchax's own (0.0.13), which takes the tensor for the mean."""
    key = torchax().default_env().get_and_rotate_prng_key(generator)
    return tensor.apply_jax_(lambda values: mean + std * jax.random.normal(key, values.shape, values.dtype))
