"""What the workbench predicts for what `benchmarks/gpu.py` measured, beside it: every row gets `predicted` and `ratio`, predicted over
measured. The hardware is the catalogue's H100 as it stands; nothing is fitted here."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from statistics import median
from typing import Any

import workbench as wb
from benchmarks.gpu_cases import KERNEL_ZOO, RUNTIMES, VOCAB, ZOO, Layers
from workbench.cost.gpu_dots import BlockedDot, product_seconds
from workbench.cost.kernel_times import AttentionDot, attention_slowdown
from workbench.hardware.catalogue import parse_hardware
from workbench.models import registry
from workbench.models.decoder import decoder
from workbench.models.decoder.decoder_config import DecoderConfig
from workbench.reports.kernel import Kernel
from workbench.reports.report import Report

CHIP = parse_hardware("1 H100").chip
DISPATCH = parse_hardware("1 H100, eager").runtime.dispatch
_DIGITS = 4
_GIBIBYTE = 1 << 30
_DOTS = {"forward": 2, "backward": 5}  # products of an attention kernel; the backward pass makes the scores again
_PARTS = {  # of a PyTorch step, by what the names of its kernels have in them; the first that fits
    "attention backward": ("flash_bwd",),
    "attention": ("flash_fwd",),
    "products": ("nvjet", "gemm", "splitk", "cutlass"),
    "optimizer": ("multi_tensor_apply",),
    "norm": ("layer_norm", "gammabeta", "rms_norm"),
    "rotary": ("_turn_kernel",),
    "loss": ("softmax", "nll_loss"),
}
_SCOPES = {"optimizer": "optimizer", "/norm/": "norm", "rotary": "rotary", "loss": "loss"}

Row = dict[str, Any]


def compare_all(measured: Row) -> Row:
    """All parts that were measured."""
    found: Row = {name: measured[name] for name in ("device", "date", "torch", "jax") if name in measured}
    rates = measured.get("rates", {})
    found |= {name: [rounded(add(each)) for each in _rows(rates.get(name))] for name, add in _RATES.items()}
    found["calls"] = rounded({"dispatch in the catalogue": DISPATCH, "launch in the catalogue": CHIP.launch, **rates.get("calls", {})})
    found |= {name: [rounded(each) for each in _rows(rates.get(name))] for name in ("bursts", "dtypes", "sustained")}
    found["eager"] = [rounded(_with_step(each)) for each in _rows(measured.get("eager"))]
    zoo = {str(each): each for each in (*ZOO, *KERNEL_ZOO)}
    for name in ("xla", "xla_kernels"):
        found[name] = [rounded(_with_program(each, zoo)) for each in _rows(measured.get(name))]
    return {"summary": rounded(summarize(found)), **found}


def summarize(found: Row) -> Row:
    """Of each part, the median of predicted over measured and the mean of how far it is off. Of memory, what is more than workspaces of
    libraries; a recorded graph's is in a pool that PyTorch's peak leaves out."""
    ratios = {
        "products": [row["ratio"] for row in found["products"]],
        "passes of 64 megabytes and more": [row["ratio"] for row in found["passes"] if row["megabytes"] >= 64],
    }
    for row in found["attentions"]:
        for way in _DOTS:
            ratios.setdefault(f"{row['kernel']}, {way}", []).append(row[f"{way}_ratio"])
    for row in (*found["eager"], *found["xla"]):
        if "ratio" in row:
            ratios.setdefault(_group_of(row), []).append(row["ratio"])
            if row.get("way") != "graph" and row.get("allocated", row.get("peak")) > _GIBIBYTE:
                ratios.setdefault(f"memory, {row.get('way', 'XLA')}", []).append(row["memory_ratio"])
    return {
        name: {"rows": len(each), "median": median(each), "error": sum(abs(ratio - 1) for ratio in each) / len(each)}
        for name, each in ratios.items()
        if each
    }


def _group_of(row: Row) -> str:
    """Steps by how they are run; those that wait for the host, as measured, apart."""
    if "way" not in row:
        return "steps, XLA"
    waits = row["host"] > 0.9 * row["seconds"] or row["busy"] < 0.8 * row["seconds"]
    return f"steps, {row['way']}" + (", waiting for the host" if waits else "")


def _rows(rows: Iterable[Row] | None) -> list[Row]:
    return list(rows or ())


def _with_product(row: Row) -> Row:
    seconds = product_seconds(BlockedDot(1, row["rows"], row["columns"], row["summed"]), "bfloat16", CHIP)
    flops = 2 * row["rows"] * row["columns"] * row["summed"]
    return {**row, "tflops": flops / row["seconds"] / 1e12, "predicted": seconds, "ratio": seconds / row["seconds"]}


def _with_attention(row: Row) -> Row:
    found = dict(row)
    for way, dots in _DOTS.items():
        kind = "attention" if way == "forward" else "attention_backward"
        dot = AttentionDot(row["batch"] * row["heads"], row["seq"], row["seq"], row["d_head"], 0.5, is_backward=way == "backward")
        flops = dots * row["batch"] * row["heads"] * row["seq"] ** 2 * row["d_head"]
        seconds = flops / (CHIP.peak("bfloat16") * CHIP.efficiency_of(kind)) * attention_slowdown(dot, CHIP.matmul_tile[3])
        found |= {
            f"{way}_tflops": flops / row[way] / 1e12,
            f"{way}_predicted": seconds,
            f"{way}_ratio": seconds / row[way],
        }
    return found


def _with_pass(row: Row) -> Row:
    seconds = row["bytes"] / (CHIP.memory_bandwidth * CHIP.efficiency_of("memory")) + CHIP.launch
    return {**row, "tb_per_s": row["bytes"] / row["seconds"] / 1e12, "predicted": seconds, "ratio": seconds / row["seconds"]}


_RATES: dict[str, Callable[[Row], Row]] = {"products": _with_product, "attentions": _with_attention, "passes": _with_pass}


@cache
def _layers_program(case: Layers) -> wb.Program:
    config = DecoderConfig(
        vocab=VOCAB,
        **case._asdict(),
        d_head=case.d_head,
        gate_up=2,
        fused="attention norm rotary nonlinearity",
        recompute="kernels",
        params="bfloat16",
        compute="bfloat16",
    )
    return decoder.training_step(config, scan=False)


def _with_step(row: Row) -> Row:
    if "error" in row:
        return row
    case = Layers(**row["case"])
    report = wb.Plan(_layers_program(case), "data:1", hardware=RUNTIMES[row["way"]]).report()
    found = {**row, "case": str(case), **_predicted(report, row["seconds"]), "memory_ratio": report.memory.peak / max(row["allocated"], 1)}
    parts = _measured_parts(found.pop("by_kernel"))
    return {**found, "parts": parts, "predicted_parts": _predicted_parts(report.kernel_costs)} if row["way"] != "compile" else found


def _with_program(row: Row, zoo: dict[str, Any]) -> Row:
    if "seconds" not in row:
        return row
    case = zoo[row["case"]]
    report = wb.Plan(registry.build(case.model, **case.arguments), "data:1", hardware="1 H100").report()
    found = {**row, **_predicted(report, row["seconds"]), "memory_ratio": report.memory.peak / max(row["peak"], 1)}
    kernels = found.pop("by_kernel")
    if any(each["kind"] == "kernel" for each in kernels):  # started together, in command buffers: the profiler names none
        return found
    return {**found, "scopes": _sum_scopes((each["path"], each["seconds"]) for each in kernels)} | {
        "predicted_scopes": _sum_scopes((each.path, each.total_seconds) for each in report.kernel_costs)
    }


def _predicted(report: Report, seconds: float) -> Row:
    time = report.step_time
    assert time
    return {
        "predicted": time.total,
        "ratio": time.total / seconds,
        "predicted_host": time.host,
        "predicted_kernels": report.kernels,
        "predicted_memory": report.memory.peak,
    }


def _measured_parts(kernels: list[Row]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for each in kernels:
        name = each["name"].lower()
        found[next((part for part, words in _PARTS.items() if any(word in name for word in words)), "other")] += each["seconds"]
    return dict(found)


def _predicted_parts(kernels: Iterable[Kernel]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for each in kernels:
        found[_part_of(each)] += each.total_seconds
    return dict(found)


def _part_of(kernel: Kernel) -> str:
    if kernel.flops:
        is_attention = "flash_attention" in kernel.path
        return "products" if not is_attention else "attention backward" if kernel.path.startswith("grad/") else "attention"
    return next((part for word, part in _SCOPES.items() if word in kernel.path), "other")


def _sum_scopes(kernels: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Seconds by named scope, forward and backward together; those of more than a hundredth of the step."""
    found: dict[str, float] = defaultdict(float)
    for path, seconds in kernels:
        found[path.removeprefix("grad/").rpartition("/")[0]] += seconds
    total = sum(found.values())
    return dict(sorted(((scope, each) for scope, each in found.items() if each > total / 100), key=lambda pair: -pair[1]))


def rounded(value: Any) -> Any:
    """All numbers to four digits."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value
