"""The spec of a job (plan, kind and resources), and its command line.

**Invariants** of a spec

- `steps`, `hosts`, `processes` and `devices` are integers from 1 up to their limits; `minutes` is positive.
- `devices` is the size of the plan's mesh, a multiple of the number of processes; compilations and searches have 1.
- `compile` and `search` use one process.
- `environment` has only variables of `ENVIRONMENT`, and their values name no files, which the job would access with its
  own rights.
- A registered program has the module that documents may name.
"""

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from math import isfinite
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError, unknown_name

ENVIRONMENT = (
    *("XLA_FLAGS", "LIBTPU_INIT_ARGS", "JAX_PLATFORMS", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_DEFAULT_PRNG_IMPL"),
    *("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR"),
    *("NCCL_DEBUG", "NCCL_ALGO", "NCCL_PROTO", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE"),
    *("OMP_NUM_THREADS", "TPU_VISIBLE_CHIPS", "CUDA_VISIBLE_DEVICES"),
)
"""Variables that a job may set."""

MOST = {"steps": 1_000_000, "hosts": 4096, "processes": 64, "devices": 1 << 20}
_SEARCHING = 0.8  # fraction of a search's minutes; the rest is for loading the plan and finishing
_PORTS = range(20_000, 32_768)  # below ephemeral ports and above common services


class JobError(WorkbenchError):
    """An invalid job, or a failure of an engine."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The spec of a job; its invariants are in the module docstring.

    - `plan`, `program`: digests; without a program the plan uses a zoo model;
    - `processes`: per host; `devices`: on all hosts; `minutes`: time limit; `memory`: bytes per process;
    - `host_bytes`: peak memory of CPU devices on each host; 0 if unknown;
    - `port`: rendezvous port; 0 lets the engine choose;
    - `options`: of the engine (partition, queue, image); of a search: fixed decisions.
    """

    plan: str
    kind: str = "run"
    program: str | None = None
    module: str = ""
    steps: int = 20
    check: bool = False
    hosts: int = 1
    processes: int = 1
    devices: int = 1
    minutes: float = 30.0
    memory: int | None = None
    host_bytes: int = 0
    port: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _verify_counts(self)
        _verify_processes(self)
        _verify_environment(self.environment)
        _verify_options(self.options)
        if re.fullmatch(r"[0-9a-f]{64}", self.plan) is None or (self.program and re.fullmatch(r"[0-9a-f]{64}", self.program) is None):
            raise JobError("A job needs the digests of its plan and program, 64 hexadecimal digits each.", ["push the plan first"])
        if re.fullmatch(r"(\w+(\.\w+)*)?", self.module) is None:
            raise JobError(f"`{self.module[:80]}` is not a name of a module.", ["give the module of the registered program"])

    @property
    def process_count(self) -> int:
        return self.hosts * self.processes

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "environment": dict(self.environment), "options": dict(self.options)}


def parse_spec(record: Mapping[str, Any]) -> JobSpec:
    names = [spec_field.name for spec_field in fields(JobSpec)]
    for name in record:
        if name not in names:
            raise JobError(*unknown_name("field of a job", str(name), names))
    if "plan" not in record:
        raise JobError("A job needs a plan.", ["pass its digest"])
    return JobSpec(**record)


def command_line(spec: JobSpec, folder: Path, python: str | None = None) -> list[str]:
    """Return the command of each process, whose number is in the environment. `python` is the job's interpreter."""
    command = [
        python or sys.executable,
        "-m",
        "workbench.cli",
        spec.kind,
        str(folder / "plan.json"),
        "--events",
        str(folder / "events.jsonl"),
    ]
    if spec.kind == "search":
        pins = [word for name, value in sorted(spec.options.items()) for word in ("--pin", f"{name}={value}")]
        command += ["--within", f"{spec.minutes * 60 * _SEARCHING:g}", "--until", "proved", "--workers", "1", *pins]
    elif spec.kind == "run":
        command += ["--steps", str(spec.steps), "--no-profile", *["--check"] * spec.check]
    else:
        command += ["--time-limit", f"{spec.minutes * 60:g}"]
    return [*command, *(["--allow", spec.module] if spec.module else []), "--json"]


def own_port(job_id: str) -> int:
    """Return a port derived from the job ID, for hosts that cannot be asked for a free one; different jobs usually
    differ.

    >>> own_port("abc") == own_port("abc"), own_port("abc") in range(20_000, 32_768)
    (True, True)
    """
    return _PORTS[int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:4], "big") % len(_PORTS)]


def _verify_counts(spec: JobSpec) -> None:
    for name, most in MOST.items():
        value = getattr(spec, name)
        if type(value) is not int or not 1 <= value <= most:
            raise JobError(f"`{name}` is {value!r:.80}; it should be a whole number from 1 to {most:,}.", [f"give {name}={min(20, most)}"])
    if type(spec.minutes) not in (int, float) or not isfinite(spec.minutes) or not 0 < spec.minutes <= 60 * 24 * 30:
        raise JobError(f"`minutes` is {spec.minutes!r:.80}; it should be above 0, and at most 30 days.", ["give minutes=30"])
    if spec.memory is not None and (type(spec.memory) is not int or not 1 << 20 <= spec.memory < 1 << 50):
        raise JobError(f"`memory` is {spec.memory!r:.80}; it should be bytes, a MiB or more.", ["give 8 GiB: memory=8589934592"])
    if type(spec.host_bytes) is not int or not 0 <= spec.host_bytes < 1 << 62:
        raise JobError(f"`host_bytes` is {spec.host_bytes!r:.80}; it should be bytes, or 0 where they are not known.", ["leave it out"])
    if type(spec.port) is not int or not 0 <= spec.port < 1 << 16:
        raise JobError(f"`port` is {spec.port!r:.80}; it should be a port, or 0 for any.", ["leave it out"])


def _verify_processes(spec: JobSpec) -> None:
    if spec.kind not in ("run", "compile", "search"):
        raise JobError(f"`{str(spec.kind)[:80]}` is not a kind of job.", ["give `run`, `compile` or `search`"])
    count = spec.process_count
    if spec.kind != "run" and count > 1:
        raise JobError(
            f"A {'compilation' if spec.kind == 'compile' else 'search'} uses one process; {spec.hosts} x {spec.processes} were requested.",
            ["give hosts=1 and processes=1"],
        )
    if spec.devices % count:
        raise JobError(
            f"{spec.devices} devices cannot be shared evenly by {spec.hosts} hosts x {spec.processes} processes: "
            f"{spec.devices} % {count} = {spec.devices % count}.",
            ["choose hosts and processes whose product divides the number of devices"],
        )


def _verify_environment(environment: Mapping[str, str]) -> None:
    _verify_texts("environment", environment)
    for name, value in environment.items():
        if name not in ENVIRONMENT:
            raise JobError(*unknown_name("variable that a job may set", name, ENVIRONMENT))
        if "/" in value or "\0" in value or "\n" in value:
            raise JobError(f"`{name}` names a file, `{value[:80]}`; variables of a job must not.", ["leave the file out"])


def _verify_options(options: Mapping[str, str]) -> None:
    """Check that options can be written into batch scripts and manifests, one per line."""
    _verify_texts("options", options)
    for name, value in options.items():
        if re.fullmatch(r"[\w.-]{1,80}", name) is None or re.fullmatch(r"[\w.,:;+@=/&|*()\[\] -]{0,200}", value, re.ASCII) is None:
            raise JobError(f"The option `{name[:80]}={value[:80]!r}` has invalid characters.", ["use letters, digits and .,:+@=/-"])


def _verify_texts(name: str, values: Mapping[str, str]) -> None:
    is_valid = isinstance(values, Mapping) and all(isinstance(key, str) and isinstance(value, str) for key, value in values.items())
    if not is_valid:
        raise JobError(f"`{name}` must map names to strings.", [f"leave {name} out"])
