"""Single kernels of PyTorch on one GPU: products by shape, attention by length, passes over memory, and what it costs to call a kernel.

Kernels are timed as a CUDA graph of several calls, so that no host counts; what a call costs the host is timed apart.
"""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 -- its usual name
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.gpu_cases import ATTENTIONS, BURSTS, DTYPES, MEGABYTES, PRODUCTS, AttentionShape, Product

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KERNELS = {"FlashAttention-2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
_AIM = 0.06  # seconds of a measurement
_MOST = 200
_CALLS = 1000
_SIDE = 8192

Row = dict[str, Any]


def draw(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE).to(dtype)


def seconds_of(call: Callable[[], Any]) -> float:
    """Seconds of one call on the device: the median of five replays of a graph of many.

    Backward passes run on the stream of their forward pass, which has to be the recorded one: `measure` makes it the current one.
    """
    for _ in range(3):
        call()
    once = _elapsed(call)
    count = max(min(int(_AIM / 5 / max(once, 1e-6)), _MOST), 1)
    if DEVICE == "cpu":
        return once
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for _ in range(count):
            call()
    graph.replay()
    found = sorted(_elapsed(graph.replay) for _ in range(5))
    del graph
    return found[2] / count


def _elapsed(call: Callable[[], Any]) -> float:
    if DEVICE == "cpu":
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
    torch.cuda.synchronize()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    call()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) * 1e-3


def products(small: bool) -> Iterator[Row]:
    for each in PRODUCTS if not small else [Product("weights", 64, 32, 16)]:
        yield {**each._asdict(), "seconds": seconds_of(_product(each))}


def _product(each: Product) -> Callable[[], Any]:
    if each.direction == "forward":
        return partial(F.linear, draw(each.rows, each.summed), draw(each.columns, each.summed))
    if each.direction == "inputs":
        return partial(torch.matmul, draw(each.rows, each.summed), draw(each.summed, each.columns))
    return partial(torch.matmul, draw(each.summed, each.rows).t(), draw(each.summed, each.columns))


def attentions(small: bool) -> Iterator[Row]:
    for each in ATTENTIONS if not small else [AttentionShape(1, 2, 64, 64)]:
        for name, backend in (KERNELS if DEVICE == "cuda" else {"math": SDPBackend.MATH}).items():
            with sdpa_kernel(backend):
                forward, backward = _attention(each)
            yield {**each._asdict(), "kernel": name, "forward": forward, "backward": backward}


def _attention(shape: AttentionShape) -> tuple[float, float]:
    q, k, v = (draw(shape.batch, shape.heads, shape.seq, shape.d_head).requires_grad_() for _ in range(3))
    forward = seconds_of(lambda: F.scaled_dot_product_attention(q.detach(), k.detach(), v.detach(), is_causal=True))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    change = torch.randn_like(out)
    return forward, seconds_of(lambda: torch.autograd.grad(out, (q, k, v), change, retain_graph=True))


def passes(small: bool) -> Iterator[Row]:
    """Kernels that compute little: bytes that they read and write once, and seconds."""
    for size in MEGABYTES if not small else (1,):
        count = size * 2**20 // 2
        for name, (moved, call) in _passes(count).items():
            yield {"pass": name, "megabytes": size, "bytes": moved * count, "seconds": seconds_of(call)}


def _passes(count: int) -> dict[str, tuple[int, Callable[[], Any]]]:
    """Of so many elements of bfloat16: bytes an element, and the call."""
    x, y, rows = draw(count), draw(count), draw(count // 4096, 4096)
    out, weight, half, wide = torch.empty_like(x), draw(4096), draw(count // 4096, 2, 4096), x.float()
    return {
        "copy": (4, partial(out.copy_, x)),
        "add": (6, partial(torch.add, x, y, out=out)),
        "silu": (4, partial(F.silu, x)),
        "cast to float32": (6, partial(x.to, torch.float32)),
        "cast from float32": (6, partial(wide.to, torch.bfloat16)),
        "product of halves": (6, partial(torch.mul, half[:, 0], half[:, 1])),
        "rms_norm": (4, partial(F.rms_norm, rows, (4096,), weight)),
        "layer_norm": (4, partial(F.layer_norm, rows, (4096,), weight)),
        "softmax": (4, partial(torch.softmax, rows, -1)),
        "sum": (2, x.sum),
        "rms_norm backward": (6, _norm_backward(rows, weight)),
    }


def _norm_backward(rows: torch.Tensor, weight: torch.Tensor) -> Callable[[], Any]:
    x, w = rows.detach().requires_grad_(), weight.detach().requires_grad_()
    out = F.rms_norm(x, (x.shape[-1],), w)
    return partial(torch.autograd.grad, out, (x, w), torch.randn_like(out), retain_graph=True)


def calls() -> dict[str, float]:
    """Seconds that the host needs for a call of a tiny kernel, from Python, and the device between two kernels of a graph."""
    x, w, scale = draw(64, 64), draw(64, 64), draw(64)
    leaf = draw(64, 64).requires_grad_()
    heads = [draw(1, 2, 64, 64).requires_grad_() for _ in range(3)]

    def no_grad(call: Callable[[], Any]) -> Callable[[], Any]:
        def inner() -> None:
            with torch.no_grad():
                for _ in range(_CALLS):
                    call()

        return inner

    found = {
        "add": _host(no_grad(lambda: x + w)),
        "linear": _host(no_grad(lambda: F.linear(x, w))),
        "rms_norm": _host(no_grad(lambda: F.rms_norm(x, (64,), scale))),
        "attention": _host(no_grad(lambda: F.scaled_dot_product_attention(*heads, is_causal=True))),
        "add, recorded for a backward pass": _host(lambda: [leaf + w for _ in range(_CALLS)]),
        "linear, recorded for a backward pass": _host(lambda: [F.linear(leaf, w) for _ in range(_CALLS)]),
        "kernel of a chain of 1,000 linear, forward and backward": _host(lambda: _chain(leaf, w)) / 2,
    }
    if DEVICE == "cuda":
        tiny = torch.zeros(8, device=DEVICE)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            for _ in range(_CALLS):
                tiny.add_(1)
        graph.replay()
        found["kernel of 8 elements in a CUDA graph, one after the other"] = min(_elapsed(graph.replay) for _ in range(5)) / _CALLS
    return found


def _chain(leaf: torch.Tensor, w: torch.Tensor) -> None:
    y = leaf
    for _ in range(_CALLS):
        y = F.linear(y, w)
    y.backward(torch.ones_like(y))


def _host(call: Callable[[], Any]) -> float:
    """Of one of `_CALLS` calls: the least of several, until the device is done."""
    found = []
    for _ in range(5):
        start = time.perf_counter()
        call()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        found.append((time.perf_counter() - start) / _CALLS)
    return min(found)


def sustained() -> list[Row]:
    """A product of 8192 x 8192 x 8192 for three seconds: its rate by time, with clock and power of the device."""
    if DEVICE == "cpu":
        return []
    time.sleep(1.0)
    x, w = draw(8192, 8192), draw(8192, 8192)
    found, begin = [], time.perf_counter()
    while time.perf_counter() < begin + 3:
        each = _elapsed(lambda: [F.linear(x, w) for _ in range(100)]) / 100
        found.append({"at": time.perf_counter() - begin, "flops": 2 * 8192**3 / each, "state": _state()})
    return found


def bursts(small: bool) -> Iterator[Row]:
    """Products alone, after a rest: the median of single calls."""
    for side in BURSTS if not small else ():
        x, w = draw(side, side), draw(side, side)
        F.linear(x, w)
        found = []
        for _ in range(7):
            torch.cuda.synchronize()
            time.sleep(0.05)
            found.append(_elapsed(lambda: [F.linear(x, w) for _ in range(3)]) / 3)  # noqa: B023 -- called at once
        yield {"side": side, "flops": 2 * side**3 / median(found), "state": _state()}


def dtypes(small: bool) -> Iterator[Row]:
    """Products of other types, by PyTorch's own functions."""
    for name in DTYPES if not small else ():
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        yield {"dtype": name, "flops": 2 * _SIDE**3 / seconds_of(_product_of(name))}


def _product_of(dtype: str) -> Callable[[], Any]:
    x, w = (draw(_SIDE, _SIDE, dtype=torch.bfloat16 if dtype == "bfloat16" else torch.float32) for _ in range(2))
    if dtype != "float8_e4m3fn":
        return partial(F.linear, x, w)
    one = torch.ones((), device=DEVICE)
    eight = (each.to(torch.float8_e4m3fn) for each in (x, w.t()))
    return partial(torch._scaled_mm, *eight, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)  # noqa: SLF001 -- it has no public name


def _state() -> str:
    """Clock of the units and power, as the driver says; only read."""
    query = ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def measure(small: bool) -> dict[str, Any]:
    """All of it; a part that fails ends with its error."""
    found: dict[str, Any] = {}
    with torch.cuda.stream(torch.cuda.Stream()) if DEVICE == "cuda" else nullcontext():
        for name, rows in (
            ("products", products),
            ("attentions", attentions),
            ("passes", passes),
            ("bursts", bursts),
            ("dtypes", dtypes),
        ):
            found[name] = []
            try:
                for row in rows(small):
                    found[name].append(row)
            except RuntimeError as error:
                found[name].append({"error": str(error)[:300]})
                torch.cuda.synchronize()
        found["calls"] = calls()
        found["sustained"] = sustained()
    return found
