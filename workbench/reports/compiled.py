"""What the compiler of the target makes of a plan: collectives, kernels, memory of the scheduled program. The engine fills it in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class CompiledCollective:
    """One collective of the compiled program.

    - `payload` in bytes and `count` as in `collective.Collective`; `path` and `source` as the planner writes them, empty if unknown;
    - `reader`: the path of the operation that reads the value, where the compiler names the collective after the one that made it; else
      empty;
    - `name`: the instruction's; `part_of`: the kind of collective that the compiler decomposed, where it did: the `pieces` permutes of a
      windowed einsum stand for one all-gather or reduce-scatter, and `payload` and `count` are those of that;
    - `overlaps`: it is asynchronous (a start and a done), so that other work can run in between;
    - `parts`: payloads of the arrays it moves together, where the compiler combined several; their sum is `payload`;
      `part_paths`: where each is from.
    """

    kind: str
    axes: tuple[str, ...]
    payload: int
    count: int
    path: str
    source: str = ""
    name: str = ""
    part_of: str = ""
    pieces: int = 1
    overlaps: bool = False
    parts: tuple[int, ...] = ()
    part_paths: tuple[str, ...] = ()
    reader: str = ""

    @property
    def total_payload(self) -> int:
        """Payload bytes per device and step."""
        return self.payload * self.count


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One fusion, dot, copy or other operation that takes time: `seconds` of one execution by the compiler's own estimate, `None` where it
    gives none; `flops` of the dots in it; `bytes` that it reads and writes in the device's main memory. An asynchronous copy is of kind
    `prefetch` and has no time."""

    name: str
    kind: str
    count: int
    path: str
    source: str
    seconds: float | None
    flops: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CompiledMemory:
    """Bytes on one device, by the compiler's account.

    - `aliased`: outputs in the memory of donated arguments; `temporary`: what the rest of the step needs at most, as the compiler packs it;
      for libtpu, the most that is alive at once;
    - `live`: temporaries alive at once at the worst moment, beside those in memory set apart for results; 0 if it is not known;
    - `stated`: `temporary` as `memory_analysis()` states it, which for libtpu is too much (see `engine.hlo.read_compiled`); 0 if it is not
      known;
    - `stated_peak`: its `peak_memory_in_bytes`, without temporaries where XLA:CPU states it; 0 if it is not known;
    - `packed`: bytes of temporaries as packed by the compiler's buffer assignment; 0 if that is not known.
    """

    arguments: int
    outputs: int
    aliased: int
    temporary: int
    code: int = 0
    host: int = 0  # bytes of the host's memory: offloaded values
    live: int = 0
    stated: int = 0
    stated_peak: int = 0
    packed: int = 0

    @property
    def arguments_and_outputs(self) -> int:
        """Bytes of the arguments, and of the results beside them."""
        return self.arguments + self.outputs - self.aliased

    @property
    def peak(self) -> int:
        return self.arguments_and_outputs + self.temporary


@dataclass(frozen=True, slots=True)
class Rematerialised:
    """An *involuntary full rematerialization* the compiler warned of: it could reshard a value only by gathering it whole.

    `path` as the planner writes it; `name` and `shape` are the instruction's, the shardings as XLA writes them.
    """

    path: str
    name: str
    shape: str
    before: str
    after: str


@dataclass(frozen=True)
class Compiled:
    """A plan compiled for a target, attached or not.

    - `target`: the hardware as a person writes it, `TPU v5e 4x4`; `devices` of it;
    - `from_cache`: it was compiled before, and read from disk;
    - `alive`: bytes of temporaries over the scheduled program's instructions, loop bodies at their loop's place, as (instruction name,
      bytes); `alive_at_peak`: the largest buffers there as (path, bytes);
    - `stages`: for a pipeline whose stages are separate programs, one device of each over a step; all other fields are the fullest stage's;
    - `rematerialised`: what the compiler warned of; also empty where its output could not be captured.
    """

    target: str
    devices: int
    compile_seconds: float
    memory: CompiledMemory
    collectives: tuple[CompiledCollective, ...]
    kernels: tuple[CompiledKernel, ...] = ()
    alive: tuple[tuple[str, int], ...] = ()
    alive_at_peak: tuple[tuple[str, int], ...] = ()
    from_cache: bool = False
    compiler: str = ""  # name and version
    reader: int = 0  # the version of the code that read it
    rematerialised: tuple[Rematerialised, ...] = ()
    stages: "tuple[Compiled, ...]" = ()

    @property
    def fullest(self) -> int:
        """The stage whose devices hold the most memory; 0 without stages."""
        peaks = [each.memory.peak for each in self.stages]
        return peaks.index(max(peaks)) if peaks else 0

    @cached_property
    def compute_seconds(self) -> float | None:
        """Seconds of all kernels by the compiler's estimate; `None` if it gave none."""
        timed = [each.seconds * each.count for each in self.kernels if each.seconds is not None]
        return sum(timed) if timed else None

    @cached_property
    def flops(self) -> int:
        """FLOP of all dots, per device and step."""
        return sum(each.flops * each.count for each in self.kernels)

    @cached_property
    def by_axis_and_kind(self) -> Mapping[tuple[tuple[str, ...], str], int]:
        """See `payload_by_axis_and_kind`."""
        return payload_by_axis_and_kind(self.collectives)

    def __str__(self) -> str:
        from workbench.text.compiled import compiled_text

        return compiled_text(self)

    def _repr_html_(self) -> str:
        from workbench.core.text_tables import html_text

        return html_text(lambda: str(self))


@dataclass(frozen=True)
class Scheduled:
    """A plan as the compiler of its hardware has it before code generation, which takes most of the time: partitioned, fused, scheduled
    and packed. Only code generation would add the compiler's own estimate of each kernel's time.

    - `target` and `compiler` as in `Compiled`; `kernels` a step; `kernel_seconds`: of those that the compiler would give an estimate of, as
      predicted by `cost.tpu_kernel_cycles`;
    - `out_of_memory`: the compiler's message where the device has too little memory for it; else empty.
    """

    target: str
    compiler: str
    memory: CompiledMemory
    kernels: int
    kernel_seconds: float
    out_of_memory: str = ""

    @property
    def compute_seconds(self) -> None:
        """Always `None`: the compiler's own estimate comes with code generation."""
        return None

    @property
    def stages(self) -> tuple[()]:
        """Always empty: it is one program."""
        return ()


def payload_by_axis_and_kind(collectives: Iterable[CompiledCollective]) -> Mapping[tuple[tuple[str, ...], str], int]:
    """Payload bytes per device and step by (mesh axes, kind), windowed einsums as the collectives they stand for."""
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for each in collectives:
        key = each.axes, each.part_of or each.kind
        sums[key] = sums.get(key, 0) + each.total_payload
    return sums
