"""Records of a plan compiled for its target: collectives, kernels and memory. The engine fills them in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from workbench.core.text_tables import Printed, axes_text, group_items, pairs_text, table_text, tail_text, wrap_text
from workbench.units import format_bytes, format_count, format_seconds


@dataclass(frozen=True, slots=True)
class CompiledCollective:
    """One collective of the compiled program.

    - `payload` in bytes and `count` as in `collective.Collective`; `path` and `source` as in the planner, empty if
      unknown;
    - `reader`: the path of the operation that reads the value, if the compiler names the collective after its maker;
      else empty;
    - `name`: the instruction's name; `part_of`: the kind of a decomposed collective: the `pieces` permutes of a
      windowed einsum are reported as one all-gather or reduce-scatter, with its `payload` and `count`;
    - `overlaps`: it is asynchronous (a start and a done), so that other work can run in between;
    - `parts`: payloads of the combined arrays, summing to `payload`; `part_paths`: the origin of each.
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
        return self.payload * self.count


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One fusion, dot, copy or other operation that takes time.

    `seconds` per execution by the compiler's estimate, `None` if it gives none; `flops` of its dots; `bytes` read and
    written in device memory. An asynchronous copy has kind `prefetch` and no time.
    """

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
    """Bytes on one device, as reported by the compiler.

    - `aliased`: outputs in the memory of donated arguments; `temporary`: peak of the other buffers as packed; for
      libtpu, the most that is live at once;
    - `live`: peak live temporaries, without buffers reserved for results; 0 if unknown;
    - `stated`: `temporary` according to `memory_analysis()`, which is too high for libtpu (see
      `engine.hlo.read_compiled`); 0 if unknown;
    - `stated_peak`: its `peak_memory_in_bytes`, without temporaries on XLA:CPU; 0 if unknown;
    - `packed`: bytes of temporaries after buffer assignment; 0 if unknown.
    """

    arguments: int
    outputs: int
    aliased: int
    temporary: int
    code: int = 0
    host: int = 0  # bytes in host memory: offloaded values
    live: int = 0
    stated: int = 0
    stated_peak: int = 0
    packed: int = 0

    @property
    def arguments_and_outputs(self) -> int:
        """Bytes of the arguments and of results that are not aliased to them."""
        return self.arguments + self.outputs - self.aliased

    @property
    def peak(self) -> int:
        return self.arguments_and_outputs + self.temporary


@dataclass(frozen=True, slots=True)
class Rematerialised:
    """An *involuntary full rematerialization* warning: a value could only be resharded by gathering it whole."""

    path: str
    name: str
    shape: str
    before: str
    after: str


@dataclass(frozen=True)
class Compiled(Printed):
    """A plan compiled for a target, attached or not.

    - `target`: the hardware, such as `TPU v5e 4x4`; `devices`: the number of its devices;
    - `from_cache`: it was read from disk;
    - `alive`: bytes of live temporaries over the schedule, as (instruction name, bytes), with loop bodies at the loop's
      position; `alive_at_peak`: the largest buffers at the peak as (path, bytes);
    - `stages`: for a pipeline with a program per stage, one device of each stage; all other fields are of the fullest
      stage;
    - `rematerialised`: the compiler's warnings; also empty if its output could not be captured.
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
    reader: int = 0  # version of the code that extracted it
    rematerialised: tuple[Rematerialised, ...] = ()
    stages: "tuple[Compiled, ...]" = ()

    @property
    def fullest(self) -> int:
        """The stage with the highest peak memory; 0 without stages."""
        peaks = [stage.memory.peak for stage in self.stages]
        return peaks.index(max(peaks)) if peaks else 0

    @cached_property
    def compute_seconds(self) -> float | None:
        """Seconds of all kernels by the compiler's estimate; `None` if it gave none."""
        timed = [kernel.seconds * kernel.count for kernel in self.kernels if kernel.seconds is not None]
        return sum(timed) if timed else None

    @cached_property
    def flops(self) -> int:
        """FLOP of all dots, per device and step."""
        return sum(kernel.flops * kernel.count for kernel in self.kernels)

    @cached_property
    def by_axis_and_kind(self) -> Mapping[tuple[tuple[str, ...], str], int]:
        return payload_by_axis_and_kind(self.collectives)

    def __str__(self) -> str:
        when = "compiled earlier, read from cache" if self.from_cache else "compiled"
        sections = [
            wrap_text(f"For {self.target} by {self.compiler}, {when} in {format_seconds(self.compile_seconds)}"),
            f"A device of stage {self.fullest}, the fullest:" if self.stages else "",
            pairs_text(_figures(self)),
            _stages(self),
            _rematerialised_text(self),
            _collectives(self.collectives),
            _kernels(self),
            _at_peak(self),
        ]
        return "\n\n".join(section for section in sections if section)


@dataclass(frozen=True)
class Scheduled:
    """A plan compiled up to code generation, which takes most of the time: partitioned, fused, scheduled and packed.

    Only code generation would add the compiler's own kernel times.

    - `target` and `compiler` as in `Compiled`; `kernels` per step; `kernel_seconds`: predicted by
      `cost.tpu_kernel_cycles` for the kernels that the compiler would estimate;
    - `out_of_memory`: the compiler's message if the program does not fit into device memory; else empty.
    """

    target: str
    compiler: str
    memory: CompiledMemory
    kernels: int
    kernel_seconds: float
    out_of_memory: str = ""

    @property
    def compute_seconds(self) -> None:
        """Always `None`: the compiler's estimate requires code generation."""
        return None

    @property
    def stages(self) -> tuple[()]:
        return ()


def payload_by_axis_and_kind(collectives: Iterable[CompiledCollective]) -> Mapping[tuple[tuple[str, ...], str], int]:
    """Sum payload bytes per device and step by (mesh axes, kind), with windowed einsums as their original collectives."""
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for collective in collectives:
        key = collective.axes, collective.part_of or collective.kind
        sums[key] = sums.get(key, 0) + collective.total_payload
    return sums


_MOST_ROWS = 12  # per table


def _rematerialised_text(compiled: Compiled) -> str:
    lines = [
        wrap_text(f"- {each.path or each.name}: {each.shape} from {each.before} to {each.after}", indent="    ", first="  ")
        for each in compiled.rematerialised
    ]
    return "\n".join(["Gathered whole (compiler warning: involuntary full rematerialization)\n", *lines]) if lines else ""


def _stages(compiled: Compiled) -> str:
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
    parts = {"arguments": memory.arguments, "results besides": memory.outputs - memory.aliased, "temporaries": memory.temporary}
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
