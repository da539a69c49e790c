"""What libtpu compiles, recorded: a plan by its program, mesh, layout and devices, all of the versions that compiled them.

Of other versions nothing is known and everything is compiled. Of the same ones a tenth, drawn by the seed of a run, is compiled anew and
is what was recorded. `--update-golden` compiles all and writes the record.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import jax

from workbench.public_plan import Plan
from workbench.reports.collective import collective_class

FILE = Path(__file__).parents[1] / "golden" / "libtpu.json"
MEMORY = ("arguments", "outputs", "aliased", "temporary", "packed")
HOST_MEMORY = ("arguments", "outputs", "aliased", "temporary", "host", "stated_peak")
SHARE = 10


class Answer(NamedTuple):
    """Bytes a device sends, by `axes/class`; fields of `CompiledMemory`; of a pipeline the peak of each stage."""

    sent: dict[str, int]
    memory: dict[str, int]
    stage_peaks: tuple[int, ...] = ()


def sent_by_class(volumes) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for (axes, kind), payload in volumes.items():
        totals[f"{'+'.join(axes)}/{collective_class(kind)}"] += payload
    return dict(+totals)


def compiled_answer(plan: Plan, parts: Sequence[str] = MEMORY) -> Answer:
    compiled = plan.compile(keep=False)
    memory = {name: getattr(compiled.memory, name) for name in parts}
    return Answer(sent_by_class(compiled.by_axis_and_kind), memory, tuple(stage.memory.peak for stage in compiled.stages))


def key_of(plan: Plan) -> str:
    return sha256("\n".join((plan.program.fingerprint, str(plan.mesh), str(plan.layout), str(plan.hardware))).encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    return {"jax": jax.__version__, **{name: version(name) for name in ("jaxlib", "libtpu")}}


@dataclass
class Record:
    """The recorded answers, for one run of the tests."""

    seed: int
    update: bool = False
    file: Path = FILE
    compiled: list[str] = field(default_factory=list)

    def answer(self, plan: Plan, parts: Sequence[str] = MEMORY) -> Answer:
        """What libtpu compiles of a plan, with these parts of its memory.

        Raises `AssertionError` where the compiler says other than it did, and where these versions' answer is missing."""
        key, known = key_of(plan), self._known()
        if not self.update and key in known and random.Random(f"{self.seed} {key}").randrange(SHARE):
            return known[key]
        found = compiled_answer(plan, parts)
        self.compiled.append(key)
        if self.update:
            self._write({**known, key: found})
        elif self._is_of_today():
            assert key in known, f"what libtpu compiles of `{plan.name}` is not recorded: run pytest --update-golden"
            assert found == known[key], f"libtpu compiles `{plan.name}` otherwise than is recorded"
        return found

    def _is_of_today(self) -> bool:
        return self.file.exists() and json.loads(self.file.read_text(encoding="utf-8"))["versions"] == versions()

    def _known(self) -> dict[str, Answer]:
        if not self._is_of_today():
            return {}
        answers = json.loads(self.file.read_text(encoding="utf-8"))["answers"]
        return {key: Answer(each["sent"], each["memory"], tuple(each.get("stage_peaks", ()))) for key, each in answers.items()}

    def _write(self, answers: dict[str, Answer]) -> None:
        lines = [
            f'  "{key}": {json.dumps({name: value for name, value in each._asdict().items() if value != ()})}'
            for key, each in sorted(answers.items())
        ]
        text = f'{{"versions": {json.dumps(versions())}, "answers": {{\n' + ",\n".join(lines) + "\n}}\n"
        self.file.write_text(text, encoding="utf-8")
