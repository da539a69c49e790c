"""A compiled plan as plain values, for `--json`."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workbench.reports.compiled import Compiled


def compiled_record(compiled: Compiled) -> Mapping[str, Any]:
    """All figures of a compiled plan: bytes, seconds, FLOP; payloads are per device and step."""
    memory = compiled.memory
    return {
        "target": compiled.target,
        "devices": compiled.devices,
        "compiler": compiled.compiler,
        "compile_seconds": compiled.compile_seconds,
        "from_cache": compiled.from_cache,
        "memory": {**asdict(memory), "peak": memory.peak},
        "alive_at_peak": [{"path": path, "bytes": count} for path, count in compiled.alive_at_peak],
        "flops": compiled.flops,
        "compute_seconds": compiled.compute_seconds,
        "payload": [{"axes": list(axes), "kind": kind, "payload": payload} for (axes, kind), payload in compiled.by_axis_and_kind.items()],
        "collectives": [asdict(each) for each in compiled.collectives],
        "rematerialised": [asdict(each) for each in compiled.rematerialised],
        "kernels": [asdict(each) for each in compiled.kernels],
        "stages": [compiled_record(each) for each in compiled.stages],
    }
