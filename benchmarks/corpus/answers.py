"""What the compiler said of the third-party programs, kept as JSON: a file a program, so that predictions are judged without compiling."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import workbench as wb
from benchmarks.corpus.program import TARGET, ThirdPartyProgram, traced, version_of
from workbench.core.sharding import base_axis
from workbench.reports.collective import collective_class
from workbench.reports.compiled import Compiled

FOLDER = Path(__file__).parent / "answers"
COMPILERS = ("jax", "jaxlib", "libtpu")


@dataclass(frozen=True)
class Answer:
    """What the compiler made of one plan.

    - `mesh`, and `layout` as a digest of its text (`digest_of`): that of a recipe is long;
    - `payload`: bytes a device and step by `axes/class`, `data+model/reduce`;
    - `peak`: bytes on one device, with libtpu's temporaries counted once (`Compiled.memory.peak`); `analysed_peak`: as
      `memory_analysis().peak_memory_in_bytes` states it; `kernel_seconds`: the sum of the kernels by the compiler's own estimate;
    - `refused`: the first line of why it could not be compiled; then all else is 0.
    """

    mesh: str
    layout: str
    payload: Mapping[str, int] = field(default_factory=dict)
    peak: int = 0
    analysed_peak: int = 0
    kernel_seconds: float = 0.0
    compile_seconds: float = 0.0
    refused: str = ""

    @property
    def volumes(self) -> dict[tuple[tuple[str, ...], str], int]:
        """`payload` by (mesh axes, class)."""
        split = {key: key.rpartition("/") for key in self.payload}
        return {(tuple(filter(None, axes.split("+"))), kind): self.payload[key] for key, (axes, _, kind) in split.items()}


@dataclass(frozen=True)
class Answers:
    """Of one program: the digest of its StableHLO, the versions of what traced and compiled it, and an answer a layout."""

    program: str
    stablehlo: str
    target: str
    versions: Mapping[str, str]
    layouts: Mapping[str, Answer]

    @property
    def header(self) -> tuple[Any, ...]:
        """What answers of one file have alike."""
        return self.program, self.stablehlo, self.target, dict(self.versions)

    def why_stale(self, layout: str, plan: wb.Plan, versions: Mapping[str, str]) -> str:
        """Why there is no answer of this layout, or not one of the plan as it is today; empty where there is."""
        differing = [
            f"{name} {self.versions.get(name, 'unknown')}, now {now}" for name, now in versions.items() if self.versions.get(name) != now
        ]
        answer = self.layouts.get(layout)
        reasons = {
            "not recorded": answer is None,
            f"recorded with {', '.join(differing)}": bool(differing),
            "the program's StableHLO is another": self.stablehlo != plan.program.fingerprint,
            "the layout is another": answer is not None and (answer.mesh, answer.layout) != (str(plan.mesh), digest_of(plan)),
        }
        return next((reason for reason, holds in reasons.items() if holds), "")


def digest_of(plan: wb.Plan) -> str:
    return hashlib.sha256(str(plan.layout).encode()).hexdigest()[:16]


def answer_of(plan: wb.Plan, compiled: Compiled) -> Answer:
    """What is kept of a compiled plan."""
    payload: dict[str, int] = {}
    for (axes, kind), size in compiled.by_axis_and_kind.items():
        used = {base_axis(axis) for axis in axes}
        key = f"{'+'.join(name for name in plan.mesh.names if name in used)}/{collective_class(kind)}"
        payload[key] = payload.get(key, 0) + size
    memory = compiled.memory
    seconds = compiled.compute_seconds or 0.0
    peaks = {"peak": memory.peak, "analysed_peak": memory.stated_peak}
    return Answer(
        str(plan.mesh), digest_of(plan), payload, **peaks, kernel_seconds=seconds, compile_seconds=round(compiled.compile_seconds, 1)
    )


def versions_of(program: ThirdPartyProgram) -> Mapping[str, str]:
    """Of the compilers and of the program's packages, as installed."""
    return {name: version_of(name) for name in (*COMPILERS, *program.packages)}


def begin_answers(program: ThirdPartyProgram) -> Answers:
    """Without any answer yet."""
    return Answers(program.name, traced(program).fingerprint, TARGET, versions_of(program), {})


def read_answers(name: str, folder: Path = FOLDER) -> Answers | None:
    """Those recorded; `None` where nothing is."""
    path = folder / f"{name}.json"
    return parse_answers(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def write_answers(answers: Answers, folder: Path = FOLDER) -> None:
    folder.mkdir(exist_ok=True)
    text = json.dumps(asdict(answers), indent=1)
    (folder / f"{answers.program}.json").write_text(text + "\n", encoding="utf-8")


def parse_answers(record: Mapping[str, Any]) -> Answers:
    """Raises `TypeError` for a field that is missing or not known."""
    return Answers(**{**record, "layouts": {name: Answer(**each) for name, each in record["layouts"].items()}})
