"""What a job is: a `JobSpec`, which is a plan, what to do with it and on how much of which machines; and the command line that does it.

**Invariants** of a spec

- `steps`, `hosts`, `processes` and `devices` are whole numbers from 1, each below its limit; `minutes` is positive.
- `devices` are those of the plan's mesh, and are shared evenly by the processes; what is compiled or searched for has 1.
- `compile` and `search` take one process.
- `environment` has no variables but those of `ENVIRONMENT`, and their values name no file: what they say would be done by the job.
- A program of the team's own comes with the module that a document may name of it.
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
"""The variables that a job may set."""

MOST = {"steps": 1_000_000, "hosts": 4096, "processes": 64, "devices": 1 << 20}
_SEARCHING = 0.8  # of a search's minutes: the rest is for reading the plan, and for ending
_PORTS = range(20_000, 32_768)  # below those that systems give to whoever asks for any, and above those of services


class JobError(WorkbenchError):
    """A job that cannot be, or an engine that does not do what it was asked."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """See the module.

    - `plan`, `program`: digests; without a program the plan's is of the zoo;
    - `processes`: of each host; `devices`: of all hosts; `minutes`: after which the job is ended; `memory`: bytes of each process;
    - `host_bytes`: of memory that its devices need at their peak on each host, where they are the processor's; 0 where that is not known;
    - `port`: of the process that the others meet at; 0 leaves it to the engine;
    - `options`: of the engine: a partition, a queue, an image; of a search: decisions that are fixed.
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
            raise JobError("A job needs the digests of its plan and its program, 64 digits each.", ["push the plan first"])
        if re.fullmatch(r"(\w+(\.\w+)*)?", self.module) is None:
            raise JobError(f"`{self.module[:80]}` is not a name of a module.", ["give the module of the registered program"])

    @property
    def process_count(self) -> int:
        """Of all hosts."""
        return self.hosts * self.processes

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "environment": dict(self.environment), "options": dict(self.options)}


def parse_spec(record: Mapping[str, Any]) -> JobSpec:
    """The spec of a record. Raises `JobError` for one that is none."""
    known = [each.name for each in fields(JobSpec)]
    for name in record:
        if name not in known:
            raise JobError(*unknown_name("field of a job", str(name), known))
    if "plan" not in record:
        raise JobError("A job needs a plan.", ["pass its digest"])
    return JobSpec(**record)


def command_line(spec: JobSpec, folder: Path, python: str | None = None) -> list[str]:
    """The command of each process of a job; which process it is stands in its environment. `python` is that of the machine it runs on."""
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
    """A port for a job whose hosts cannot be asked for a free one: each job has another, as a rule.

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
            f"A {'compilation' if spec.kind == 'compile' else 'search'} takes one process; here are {spec.hosts} x {spec.processes}.",
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
    """They stand in batch scripts and manifests, a line each."""
    _verify_texts("options", options)
    for name, value in options.items():
        if re.fullmatch(r"[\w.-]{1,80}", name) is None or re.fullmatch(r"[\w.,:;+@=/&|*()\[\] -]{0,200}", value, re.ASCII) is None:
            raise JobError(f"The option `{name[:80]}={value[:80]!r}` has invalid characters.", ["use letters, digits and .,:+@=/-"])


def _verify_texts(name: str, values: Mapping[str, str]) -> None:
    whole = isinstance(values, Mapping) and all(isinstance(key, str) and isinstance(each, str) for key, each in values.items())
    if not whole:
        raise JobError(f"`{name}` should be texts by name.", [f"leave {name} out"])
