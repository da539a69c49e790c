"""A Llama's training step in plain PyTorch, one kernel a call: timed, its memory and its kernels.

Of the layers, one call each: the joint projection, rotary positions (a kernel of Triton, as flash-attn's), `scaled_dot_product_attention`,
its output, SwiGLU from one product, `rms_norm`. It is what `models.decoder` is with `fused="attention norm rotary nonlinearity"`.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 -- its usual name
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.gpu_cases import VOCAB, Layers
from benchmarks.gpu_rates import DEVICE

if DEVICE == "cuda":
    import triton
    import triton.language as tl

    @triton.jit
    def _turn_kernel(x, out, cos, sin, seq, stride_row, stride_head, sign, HEADS: tl.constexpr, HALF: tl.constexpr):  # noqa: N803
        """The heads of a token: their halves turned by the angles of its position."""
        row, head, place = tl.program_id(0), tl.arange(0, HEADS)[:, None], tl.arange(0, HALF)[None, :]
        c, s = tl.load(cos + (row % seq) * HALF + place), tl.load(sin + (row % seq) * HALF + place) * sign
        at = x + row.to(tl.int64) * stride_row + head * stride_head + place
        left, right = tl.load(at).to(tl.float32), tl.load(at + HALF).to(tl.float32)
        to = out + (row.to(tl.int64) * HEADS + head) * 2 * HALF + place
        tl.store(to, (left * c - right * s).to(tl.bfloat16))
        tl.store(to + HALF, (right * c + left * s).to(tl.bfloat16))


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, sign: float) -> torch.Tensor:
    """x [batch, seq, heads, d_head] turned."""
    batch, seq, heads, d_head = x.shape
    if DEVICE == "cpu":
        left, right = x.float().chunk(2, -1)
        c, s = cos[:, None], sin[:, None] * sign
        return torch.cat([left * c - right * s, right * c + left * s], -1).to(x.dtype)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    assert x.stride(0) == seq * x.stride(1)
    _turn_kernel[(batch * seq,)](x, out, cos, sin, seq, x.stride(1), x.stride(2), sign, HEADS=heads, HALF=d_head // 2)
    return out


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin, 1.0)

    @staticmethod
    def backward(ctx: Any, change: torch.Tensor) -> Any:
        cos, sin = ctx.saved_tensors
        return _turn(change.contiguous(), cos, sin, -1.0), None, None


_ANNOTATION = "Optimizer.step#"  # spans the kernels of a call of the optimizer


class Layer(nn.Module):
    def __init__(self, case: Layers) -> None:
        super().__init__()
        self.case = case
        heads = case.kv_heads * case.q_per_kv
        self.norm1, self.norm2 = (nn.Parameter(torch.ones(case.d_model)) for _ in range(2))
        self.wqkv = nn.Linear(case.d_model, (heads + 2 * case.kv_heads) * case.d_head, bias=False)
        self.wo = nn.Linear(heads * case.d_head, case.d_model, bias=False)
        self.w1 = nn.Linear(case.d_model, 2 * case.d_ff, bias=False)
        self.w2 = nn.Linear(case.d_ff, case.d_model, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        case = self.case
        heads, normal = case.kv_heads * case.q_per_kv, F.rms_norm(x, (case.d_model,), self.norm1, 1e-5)
        joint = self.wqkv(normal).view(*x.shape[:2], heads + 2 * case.kv_heads, case.d_head)
        query, key, value = joint.split((heads, case.kv_heads, case.kv_heads), 2)
        query, key = _Rotary.apply(query, cos, sin), _Rotary.apply(key, cos, sin)
        mixed = F.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True, enable_gqa=case.q_per_kv > 1
        )
        x = x + self.wo(mixed.transpose(1, 2).reshape(*x.shape[:2], -1))
        gate, up = self.w1(F.rms_norm(x, (case.d_model,), self.norm2, 1e-5)).chunk(2, -1)
        return x + self.w2(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, case: Layers) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, case.d_model)
        self.layers = nn.ModuleList(Layer(case) for _ in range(case.layers))
        self.norm = nn.Parameter(torch.ones(case.d_model))
        self.head = nn.Linear(case.d_model, VOCAB, bias=False)
        angles = torch.arange(case.seq)[:, None] * 1e4 ** (-torch.arange(case.d_head // 2) / (case.d_head // 2))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.head(F.rms_norm(x, x.shape[-1:], self.norm, 1e-5))
        return F.cross_entropy(logits.float().view(-1, VOCAB), targets.view(-1))


class Steps:
    """A model, its optimizer and one batch; `step` enqueues a training step."""

    def __init__(self, case: Layers, way: str) -> None:
        torch.manual_seed(0)
        with torch.device(DEVICE):
            self.model = Llama(case)
        for parameter in self.model.parameters():
            parameter.data = parameter.data.to(torch.bfloat16)
        fused = {"fused": True} if way != "foreach" else {"foreach": True}
        capturable = {"capturable": True} if way == "graph" and DEVICE == "cuda" else {}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, **fused, **capturable)
        self.tokens, self.targets = torch.randint(0, VOCAB, (2, case.batch, case.seq), device=DEVICE)
        self.loss = torch.compile(self.model) if way == "compile" else self.model
        self.graph: torch.cuda.CUDAGraph | None = None

    def call(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.tokens, self.targets).backward()
        self.optimizer.step()

    def step(self) -> None:
        self.graph.replay() if self.graph else self.call()

    def record(self) -> None:
        """The step as a CUDA graph, after three steps beside the main stream, as PyTorch asks for."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.call()
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.call()
        self.graph = graph


def measure(case: Layers, way: str, steps: int) -> dict[str, Any]:
    """Seconds of a step (the median), those the host needs to call it, bytes at the peak, and the kernels of a step."""
    backend = SDPBackend.FLASH_ATTENTION if DEVICE == "cuda" else SDPBackend.MATH
    with sdpa_kernel(backend):
        run = Steps(case, way)
        start = time.perf_counter()
        if way == "graph" and DEVICE == "cuda":
            run.record()
        for _ in range(3):
            run.step()
        _wait()
        began = time.perf_counter() - start
        if DEVICE == "cuda":
            torch.cuda.reset_peak_memory_stats()
        seconds = _time_steps(run.step, steps)
        host = median(_host_seconds(run.step) for _ in range(5))
        memory = torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0
        reserved = torch.cuda.memory_reserved() if DEVICE == "cuda" else 0
        kernels = _kernels(run.step)
    return {
        "case": case._asdict(),
        "way": way,
        "seconds": median(seconds),
        "range": [min(seconds), max(seconds)],
        "host": host,
        "began": began,
        "allocated": memory,
        "reserved": reserved,
        "kernels": sum(each["count"] for each in kernels),
        "busy": sum(each["seconds"] for each in kernels),
        "by_kernel": kernels,
    }


def _wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def _time_steps(step: Callable[[], None], steps: int) -> list[float]:
    """From the end of a step to that of the next, none waited for by the host."""
    if DEVICE == "cpu":
        return [_host_seconds(step) for _ in range(steps)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    step()
    for number, event in enumerate(events):
        if number:
            step()
        event.record()
    torch.cuda.synchronize()
    return [first.elapsed_time(last) * 1e-3 for first, last in pairwise(events)]


def _host_seconds(step: Callable[[], None]) -> float:
    """That the host needs to enqueue a step, on an idle device."""
    _wait()
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _kernels(step: Callable[[], None]) -> list[dict[str, Any]]:
    """The kernels of one step by name: how often, and seconds in all."""
    if DEVICE == "cpu":
        return []
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        step()
        torch.cuda.synchronize()
    sums: dict[str, list[float]] = defaultdict(list)
    for event in found.events():
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith(_ANNOTATION):
            sums[event.name].append(event.device_time_total)
    rows = [{"name": name[:160], "count": len(times), "seconds": sum(times) * 1e-6} for name, times in sums.items()]
    return sorted(rows, key=lambda row: -row["seconds"])
