"""What the compiler of the target makes of a plan: collectives, kernels, memory of the scheduled program. The engine fills it in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from workbench.core.text_tables import Printed, axes_text, group_items, pairs_text, table_text, tail_text, wrap_text
from workbench.units import format_bytes, format_count, format_seconds


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
class Compiled(Printed):
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
        return compiled_text(self)


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


_MOST_ROWS = 12  # rows of one table


def compiled_text(compiled: Compiled) -> str:
    """A compiled plan: memory, collectives, kernels, as text."""
    when = "compiled earlier, read from cache" if compiled.from_cache else "compiled"
    sections = [
        wrap_text(f"For {compiled.target} by {compiled.compiler}, {when} in {format_seconds(compiled.compile_seconds)}"),
        f"A device of stage {compiled.fullest}, the fullest:" if compiled.stages else "",
        pairs_text(_figures(compiled)),
        _stages(compiled),
        _rematerialised_text(compiled),
        _collectives(compiled.collectives),
        _kernels(compiled),
        _at_peak(compiled),
    ]
    return "\n\n".join(section for section in sections if section)


def _rematerialised_text(compiled: Compiled) -> str:
    """The partitioner's warnings of rematerialisation."""
    lines = [
        wrap_text(f"- {each.path or each.name}: {each.shape} from {each.before} to {each.after}", indent="    ", first="  ")
        for each in compiled.rematerialised
    ]
    return "\n".join(["Gathered whole (compiler warning: involuntary full rematerialization)\n", *lines]) if lines else ""


def _stages(compiled: Compiled) -> str:
    """A row per stage of a pipeline."""
    rows = [
        (
            str(number),
            format_bytes(each.memory.peak),
            format_bytes(each.memory.arguments),
            format_bytes(sum(one.total_payload for one in each.collectives)),
            format_count(each.flops, "FLOP"),
        )
        for number, each in enumerate(compiled.stages)
    ]
    return table_text(["stage", "peak>", "held throughout>", "sent inside of it>", "arithmetic>"], rows) if rows else ""


def _figures(compiled: Compiled) -> Iterator[tuple[str, str, str]]:
    memory = compiled.memory
    parts = {
        "arguments": memory.arguments,
        "results besides": memory.outputs - memory.aliased,
        "temporaries": memory.temporary,
    }
    yield (
        "memory per device",
        format_bytes(memory.peak),
        " · ".join(f"{name} {format_bytes(count)}" for name, count in parts.items() if count),
    )
    if memory.live:
        wasted = max(memory.temporary - memory.live, 0)
        yield "temporaries alive at once", format_bytes(memory.live), f"packing them takes {format_bytes(wasted)} more" if wasted else ""
    if memory.host:
        yield "host memory per device", format_bytes(memory.host), "offloaded state"
    sent = sum(each.total_payload for each in compiled.collectives)
    executed = sum(each.count for each in compiled.collectives)
    yield "communication payload", format_bytes(sent), f"{format_count(executed)} collectives a step"
    yield (
        "arithmetic per device",
        format_count(compiled.flops, "FLOP"),
        f"{format_count(sum(each.count for each in compiled.kernels))} kernels a step",
    )
    if compiled.compute_seconds is not None:
        yield (
            "compute time",
            format_seconds(compiled.compute_seconds),
            "the compiler's kernel estimate, without collectives, gathers, scatters and sorts",
        )


def _collectives(collectives: Sequence[CompiledCollective]) -> str:
    """One row for each set of mesh axes and kind; decomposed collectives with their number of pieces."""
    rows = []
    for group in group_items(collectives, lambda each: (each.axes, each.part_of or each.kind)):
        pieces = sum(each.count * each.pieces for each in group if each.part_of)
        overlapped = sum(each.total_payload for each in group if each.overlaps)
        total = sum(each.total_payload for each in group)
        notes = []
        if pieces:
            notes.append(f"{format_count(pieces)} permutes are its pieces")
        if overlapped:
            notes.append(f"{overlapped / total:.0%} overlapped")
        rows.append(
            (
                axes_text(group[0].axes),
                group[0].part_of or group[0].kind,
                format_count(sum(each.count for each in group)),
                format_bytes(total),
                ", ".join(notes),
            )
        )
    return table_text(["mesh axis", "kind", "executed>", "payload>", "~"], rows) if rows else "No communication."


def _kernels(compiled: Compiled) -> str:
    """The kernels with the longest time by the compiler's estimate."""
    total = compiled.compute_seconds
    if not total:
        return ""
    groups = group_items([each for each in compiled.kernels if each.seconds], lambda each: each.path or each.kind)
    groups.sort(key=_seconds, reverse=True)
    rows = [
        (
            tail_text(group[0].path) or group[0].kind,
            group[0].source,
            format_seconds(_seconds(group)),
            f"{_seconds(group) / total:.1%}",
            format_count(sum(each.flops * each.count for each in group), "FLOP"),
        )
        for group in groups[:_MOST_ROWS]
    ]
    more = f"\n and {len(groups) - _MOST_ROWS} more" if len(groups) > _MOST_ROWS else ""
    return table_text(["operation", "line", "time>", "of it>", "arithmetic>"], rows) + more


def _seconds(group: Sequence[CompiledKernel]) -> float:
    return sum((each.seconds or 0.0) * each.count for each in group)


def _at_peak(compiled: Compiled) -> str:
    if not compiled.alive_at_peak:
        return ""
    groups = group_items(compiled.alive_at_peak, lambda each: each[0])
    groups.sort(key=lambda group: -sum(count for _, count in group))
    rows = [(tail_text(group[0][0]), str(len(group)), format_bytes(sum(count for _, count in group))) for group in groups[:_MOST_ROWS]]
    return f"Largest temporaries at the peak\n\n{table_text(['made by', 'buffers>', 'bytes>'], rows)}"
