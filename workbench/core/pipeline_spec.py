"""Specify how a step is pipelined, and how a batch splits into micro-batches."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import gcd
from typing import Any, NamedTuple

from workbench.core.program import Program
from workbench.core.tensor import Tensor
from workbench.errors import PipelineError, unknown_name, wrong_type
from workbench.units import divisors

REMAT = ("always", "except_last", "never")
"""`first_1` to `first_<stages - 1>` are also valid: see `first_remat`."""
ENGINES = ("mpmd", "spmd")
MAX_COUNT = 4096  # stages, micro-batches and chunks, each
MOST_VIRTUAL_STAGES = 512
"""Stages times chunks; the deepest published pipelines have 64 stages."""
MOST_TASKS = 1 << 15
"""Virtual stages times micro-batches, simulated task by task; a trillion-parameter run had 64 x 512."""


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A pipeline of `stages` device groups along mesh axis `axis`, each with `chunks` virtual stages of the network.

    - `micro_batches`: per step.
    - `schedule`: a name in `core.schedules.ALL_SCHEDULES`.
    - `boundaries`: blocks of the network that must begin a virtual stage; other boundaries are balanced.
    - `remat`: which micro-batches recompute their forward pass: all, all but the last, or none; `first_N`: all, but
      only on the first N stages, which hold the most micro-batches under 1F1B (AdaPipe, ASPLOS 2024). Engine `spmd`
      treats all micro-batches alike: it takes `except_last` for `always` and rejects `first_N`.
    - `engine`: `mpmd` compiles each stage for its own devices; `spmd` is one program for all (a shifting buffer, GSPMD
      section 3.3).

    >>> print(PipelineSpec.parse("stages:4, micro_batches:8 schedule:interleaved chunks:2"))
    stages:4 micro_batches:8 schedule:interleaved chunks:2

    **Invariants**

    - `stages`, `micro_batches` and `chunks` are integers from 1.
    - The schedule exists and is valid for these numbers; `spmd` takes schedules that all devices can run in lockstep.
    - At most 512 virtual stages; virtual stages times micro-batches are at most 32,768.
    - `boundaries` are unique names, fewer than there are virtual stages.
    - `engine` is in `ENGINES`; `remat` is in `REMAT`, or with `mpmd` `first_N` with N from 1 to `stages` - 1; `axis` is
      a name.
    """

    stages: int
    micro_batches: int
    schedule: str = "1f1b"
    chunks: int = 1
    boundaries: tuple[str, ...] = ()
    remat: str = "always"
    axis: str = "stage"
    engine: str = "mpmd"

    def __post_init__(self) -> None:
        for name in ("stages", "micro_batches", "chunks"):
            _verify_count(name, getattr(self, name))
        _verify_tasks(self)
        _verify_schedule(self)
        _verify_boundaries(self)
        if self.engine not in ENGINES:
            raise PipelineError(*unknown_name("engine", self.engine, ENGINES))
        _verify_remat(self)
        if not re.fullmatch(r"[A-Za-z_]\w{0,63}", self.axis):
            raise PipelineError(f"`{self.axis[:80]}` is not a valid name of a mesh axis.", ["use letters, digits and `_`"])

    @property
    def virtual_stages(self) -> int:
        """The number of consecutive virtual stages of the network.

        >>> PipelineSpec(4, 8, "interleaved", chunks=2).virtual_stages
        8
        """
        return self.stages * self.chunks

    def device_of(self, virtual_stage: int) -> int:
        """Return the stage (device group) that runs this virtual stage under the schedule.

        >>> [PipelineSpec(2, 8, "interleaved", chunks=2).device_of(k) for k in range(4)]
        [0, 1, 0, 1]
        >>> [PipelineSpec(2, 8, "zb_v", chunks=2).device_of(k) for k in range(4)]
        [0, 1, 1, 0]
        """
        from workbench.core.schedules import PipelineShape, schedule_named

        return schedule_named(self.schedule).device_of(virtual_stage, PipelineShape(self.stages, self.micro_batches, self.chunks))

    @property
    def recomputing_stages(self) -> int:
        """The number of leading stages that recompute forward passes.

        >>> [PipelineSpec(4, 8, remat=each).recomputing_stages for each in ("never", "first_1", "first_3", "except_last", "always")]
        [0, 1, 3, 4, 4]
        """
        if count := _FIRST.fullmatch(self.remat):
            return int(count[1])
        return 0 if self.remat == "never" else self.stages

    def recomputes(self, micro_batch: int, stage: int) -> bool:
        """Return whether this micro-batch's backward pass recomputes the forward pass on this stage, in all chunks.

        >>> [PipelineSpec(2, 3, remat="except_last").recomputes(i, stage=0) for i in range(3)]
        [True, True, False]
        >>> [PipelineSpec(3, 3, remat="first_2").recomputes(0, stage) for stage in range(3)]
        [True, True, False]
        """
        is_exempt = self.remat == "except_last" and self.engine != "spmd" and micro_batch == self.micro_batches - 1
        return stage < self.recomputing_stages and not is_exempt

    @classmethod
    def parse(cls, text: str) -> "PipelineSpec":
        """Parse the text form, or `accumulate:8` for gradient accumulation without stages. Raises `PipelineError`.

        >>> PipelineSpec.parse("accumulate:8") == PipelineSpec(1, 8, remat="never")
        True
        """
        if accumulation := re.fullmatch(r"accumulate:(\d{1,9})", text.strip()):
            return cls(1, int(accumulation[1]), remat="never")
        entries: dict[str, Any] = {}
        for word in re.split(r"[\s,;]+", text.strip()):
            name, colon, value = word.partition(":")
            if not word or (colon and value and name in _FIELD_TYPES and name not in entries):
                entries.update({name: _parse_value(name, value)} if word else {})
                continue
            if colon and name not in _FIELD_TYPES:
                raise PipelineError(*unknown_name("entry of a pipeline", name, _FIELD_TYPES))
            complaint = f"says `{name}` twice" if name in entries else f"has `{word[:80]}`, which is not an entry"
            raise PipelineError(f"The pipeline {complaint}.", [_EXAMPLE])
        if missing := [f"`{name}`" for name in ("stages", "micro_batches") if name not in entries]:
            raise PipelineError(f"The pipeline lacks {' and '.join(missing)}.", [_EXAMPLE])
        return cls(**entries)

    def __str__(self) -> str:
        words = [f"stages:{self.stages}", f"micro_batches:{self.micro_batches}", f"schedule:{self.schedule}"]
        for field in fields(self)[3:]:
            value = getattr(self, field.name)
            if value != field.default:
                words.append(f"{field.name}:{'+'.join(value) if isinstance(value, tuple) else value}")
        return " ".join(words)


def first_remat(count: int, stages: int) -> str:
    """Return the `remat` under which the first `count` of `stages` stages recompute.

    >>> first_remat(0, 4), first_remat(2, 4), first_remat(4, 4)
    ('never', 'first_2', 'always')
    """
    return "never" if count <= 0 else "always" if count >= stages else f"first_{count}"


def fit_remat(remat: str, stages: int) -> str:
    """Adapt `remat` to a pipeline of `stages` stages: `first_N` that covers all of them becomes `always`.

    >>> fit_remat("first_2", 4), fit_remat("first_2", 2), fit_remat("except_last", 2)
    ('first_2', 'always', 'except_last')
    """
    return first_remat(int(count[1]), stages) if (count := _FIRST.fullmatch(remat)) else remat


def first_stages(count: int) -> str:
    """Format the number of leading stages as words.

    >>> first_stages(1), first_stages(3)
    ('the first stage', 'the first 3 stages')
    """
    return "the first stage" if count == 1 else f"the first {count} stages"


def read_pipeline(given: PipelineSpec | str | None) -> PipelineSpec | None:
    """Parse a pipeline given as text; pass on `PipelineSpec` and `None`. Raises `PipelineError` for other types."""
    if given is None or isinstance(given, PipelineSpec):
        return given
    if isinstance(given, str):
        return PipelineSpec.parse(given)
    raise PipelineError(wrong_type("pipeline", given, "text or a `PipelineSpec`"), [_EXAMPLE])


_FIELD_TYPES: Mapping[str, type] = {field.name: int if field.type in (int, "int") else str for field in fields(PipelineSpec)}
_EXAMPLE = 'write it as "stages:4 micro_batches:16 schedule:1f1b"'
_FIRST = re.compile(r"first_(0|[1-9]\d{0,5})")


def _parse_value(name: str, text: str) -> Any:
    if name == "boundaries":
        return tuple(text.split("+"))
    if _FIELD_TYPES[name] is str:
        return text
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise PipelineError(f"`{name}:{text[:80]}` is not a number.", [_EXAMPLE])
    return int(text)


def _verify_count(name: str, count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_COUNT:
        raise PipelineError(f"Invalid pipeline: {name}:{str(count)[:80]}.", [f"set `{name}` to a whole number from 1 to {MAX_COUNT:,}"])


def _verify_tasks(spec: PipelineSpec) -> None:
    pieces_text = (
        f"{spec.stages:,} stages x {spec.chunks:,} chunks = {spec.virtual_stages:,} virtual stages"
        if spec.chunks > 1
        else f"{spec.stages:,} stages"
    )
    if spec.virtual_stages > MOST_VIRTUAL_STAGES:
        raise PipelineError(f"A pipeline of {pieces_text} is too long; it has at most {MOST_VIRTUAL_STAGES}.", ["make `stages` smaller"])
    if (tasks := spec.virtual_stages * spec.micro_batches) > MOST_TASKS:
        raise PipelineError(
            f"{pieces_text} x {spec.micro_batches:,} micro-batches are {tasks:,} forward passes; the limit is {MOST_TASKS:,} per step.",
            [f"make `micro_batches` {MOST_TASKS // spec.virtual_stages:,} at most", "make `stages` smaller"],
        )


def _verify_schedule(spec: PipelineSpec) -> None:
    from workbench.core.schedules import ALL_SCHEDULES, PipelineShape, schedule_named

    schedule = schedule_named(spec.schedule)
    schedule.verify(PipelineShape(spec.stages, spec.micro_batches, spec.chunks))
    if spec.engine == "spmd" and not schedule.spmd:
        names = [f"schedule:{candidate.name}" for candidate in ALL_SCHEDULES if candidate.spmd]
        raise PipelineError(
            f"Engine `spmd` runs all stages in lockstep as one program; schedule `{spec.schedule}` requires them to "
            "run different tasks at the same time.",
            [f"use {' or '.join(names)}", "use engine:mpmd"],
        )


def _verify_remat(spec: PipelineSpec) -> None:
    match = _FIRST.fullmatch(spec.remat) if isinstance(spec.remat, str) else None
    if match is None:
        if spec.remat not in REMAT:
            raise PipelineError(*unknown_name("remat", spec.remat, (*REMAT, *(["first_1"] if spec.stages > 1 else []))))
        return
    count, most = int(match[1]), spec.stages - 1
    others = [] if most < 1 else ["use remat:first_1"] if most == 1 else [f"use remat:first_1 to remat:first_{most}"]
    if count == 0:
        raise PipelineError("`remat:first_0` recomputes on no stage.", ["use remat:never", *others])
    if count > most:
        have = "1 stage" if spec.stages == 1 else f"{spec.stages} stages"
        raise PipelineError(f"`remat:{spec.remat}` of {have} covers all stages.", ["use remat:always", *others])
    if spec.engine == "spmd":
        raise PipelineError(
            f"Engine `spmd` runs all stages as one program, which recomputes on all or none; `remat:{spec.remat}` does on "
            f"{first_stages(count)} of {spec.stages}.",
            ["use remat:always or remat:never", "use engine:mpmd"],
        )


def _verify_boundaries(spec: PipelineSpec) -> None:
    counts = Counter(spec.boundaries)
    for name in spec.boundaries:
        if not name or re.search(r"[\s,;+]", name):
            raise PipelineError(f"`{name[:80]}` is not a valid block name.", ["use block names as shown on the board"])
        if counts[name] > 1:
            raise PipelineError(f"Two virtual stages of the pipeline would begin at `{name}`.", ["use each boundary once"])
    if len(spec.boundaries) >= spec.virtual_stages:
        raise PipelineError(
            f"{len(spec.boundaries)} boundaries make {len(spec.boundaries) + 1} virtual stages; the pipeline has "
            f"{spec.stages} stages x {spec.chunks} chunks = {spec.virtual_stages}.",
            [f"name at most {spec.virtual_stages - 1}", "make `stages` larger"],
        )


# Splitting a batch into micro-batches.
#
# The batch dimension of every leaf is split in order: micro-batch i of m gets examples i b/m to (i + 1) b/m of b. A random key without
# a batch dimension is folded with i; every other leaf goes to each micro-batch whole.

BATCH = "batch"
_KEYS = ("key", "keys", "rng", "rngs", "seed", "dropout")


class Split(NamedTuple):
    """The split of a batch leaf: along `dim`, folded as a random key, or (neither) passed whole."""

    dim: int | None
    folds: bool = False


def plan_input_splits(program: Program, micro_batches: int) -> tuple[Split, ...]:
    """Return the split of each program input. Raises `PipelineError` if `micro_batches` does not divide the batch."""
    inputs = [program.arguments[i] for i in program.inputs]
    name = batch_dim(inputs, program.name)
    for tensor in inputs:
        if name in tensor.dims:
            _verify_divides(tensor, name, micro_batches)
    return tuple(Split(tensor.dims.index(name)) if name in tensor.dims else Split(None, _is_key(tensor)) for tensor in inputs)


def batch_dim(inputs: Sequence[Tensor], name: str) -> str:
    """Return dimension `batch`, else the first dimension of any input. Raises `PipelineError` if there is none."""
    if any(BATCH in tensor.dims for tensor in inputs):
        return BATCH
    for tensor in inputs:
        if tensor.dims and not _is_key(tensor):
            return tensor.dims[0]
    raise PipelineError(f"No input of {name} has a dimension to divide into micro-batches.", [f"name one `{BATCH}`"])


def _verify_divides(tensor: Tensor, name: str, micro_batches: int) -> None:
    size = tensor.shape[tensor.dims.index(name)]
    if size % micro_batches == 0:
        return
    nearest = sorted(divisors(size), key=lambda count: abs(count - micro_batches))[:2]
    raise PipelineError(
        f"`{tensor}`: {micro_batches} micro-batches do not divide `{name}` ({size}); {size} % {micro_batches} = {size % micro_batches}.",
        [f"make micro_batches {' or '.join(str(each) for each in sorted(nearest))}", f"make `{name}` a multiple of {micro_batches}"],
    )


def _is_key(tensor: Tensor) -> bool:
    """Return whether a tensor is a typed random key, or a raw one (two words) with a key's name."""
    raw = tensor.dtype == "uint32" and tensor.shape[-1:] == (2,) and tensor.path.rpartition("/")[2].lower() in _KEYS
    return tensor.dtype.startswith("key<") or raw


def micro_batch_counts(program: Program) -> tuple[int, ...]:
    """Return the micro-batch counts that divide the batch. Raises `PipelineError` if no input can be split."""
    inputs = [program.arguments[i] for i in program.inputs]
    name = batch_dim(inputs, program.name)
    size = gcd(*(tensor.shape[tensor.dims.index(name)] for tensor in inputs if name in tensor.dims))
    return tuple(count for count in divisors(size) if count <= MAX_COUNT)
