"""Define a traced program: named tensors, operations, and the StableHLO that Shardy partitions. No device is used."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from workbench.core.offload import ALL_ON_DEVICE, Offload
from workbench.core.precision import AS_WRITTEN, Precision
from workbench.core.proposed_names import NONE_PROPOSED, ProposedNames
from workbench.core.remat import AS_TRACED, Remat
from workbench.core.source_annotations import NOTHING_WRITTEN, WrittenShardings
from workbench.core.tensor import Role, Tensor, verify_dim_name
from workbench.errors import DimensionError, TraceError, unknown_name

STATE = (Role.PARAMETER, Role.OPTIMIZER_STATE, Role.MODEL_STATE)
CACHE_ATTRIBUTE = "_kept"  # entry of a program's `__dict__` for `derived_value_cache`; not pickled


@dataclass(frozen=True, slots=True)
class Reference:
    """A program's name in a plan document: a zoo model (`gpt`) or `package.module:function`, with JSON `arguments`."""

    target: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.target}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the traced program, independent of layout; its index in `Program.operations` is its id.

    `path` is its named scope and primitive (`blocks/mlp/dot_general`), under `grad/` in the backward pass; `kind` the
    StableHLO operation; `source` the user's line (`gpt.py:42`); shape and dims are of the first result. `manual` are
    the mesh axes of an enclosing `shard_map`: the shape is then per device of these axes.
    """

    path: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str, ...]
    source: str
    manual: tuple[str, ...] = ()


class RemovedValue(NamedTuple):
    """A value of the function that the step does not compute, with the reason and alternatives."""

    path: str
    source: str
    why: str
    ways_out: tuple[str, ...]


MeshAxes = tuple[tuple[str, int], ...]


def _without_ones(axes: MeshAxes) -> MeshAxes:
    return tuple((name, size) for name, size in axes if size > 1)


@dataclass(frozen=True, slots=True)
class Training:
    """The parts of a training step: `loss(params, batch)`, optimizer, pytrees; `moments` and `sums` as in `Precision`.

    `frozen`: numbers of the parameters' leaves that are not trained: they have no gradient and no optimizer state.
    """

    loss: Callable[..., Any]
    optimizer: Any
    params: Any
    batch: Any
    moments: str | None = None
    sums: str | None = None
    frozen: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """The functions that run a program, called by engines only; leaves are in the order of the program's tensors.

    - `call(*arguments) -> results`, traceable;
    - `initialize(key, given) -> state leaves`, traceable, so that state is created sharded; `given` are the arrays at
      `given_indices`;
    - `feed(step) -> input leaves` as NumPy arrays on the host, equal on every process;
    - `loss`: the index of the loss among the results, if any;
    - `training`: the parts of a training step, used by pipelines; `None` for any other function;
    - `written`: the shardings that the program itself states for its arguments.
    """

    call: Callable[..., tuple[Any, ...]]
    initialize: Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]
    feed: Callable[[int], tuple[Any, ...]]
    given_indices: tuple[int, ...] = ()
    given: tuple[Any, ...] = ()
    loss: int | None = None
    training: Training | None = None
    written: WrittenShardings = NOTHING_WRITTEN


@dataclass(frozen=True, eq=False)
class Program:
    """A JAX function traced at given shapes.

    **Invariants**

    - `arguments` and `results` are in the order of `main`'s arguments and results in `module`, which Shardy propagates,
      and in `lowered`, the same program as XLA receives it.
    - `carried` pairs a result with the argument it becomes in the next step; both have one sharding, and the argument's
      memory is donated.
    - Dimension names are unique within an argument.
    - `renamed` maps every dimension name of the trace to its current one; empty until the first renaming.
    - `former_dims` maps dimension names of earlier model versions to names of the trace, to read old layouts and
      documents.
    - `proposed` are the dimensions that the user did not name, with proposed names and reasons.
    - Two programs are equal if their StableHLO, names, remat, precision and offload are; `step` is not compared.
    - `turns` are the trip counts of loops with a data-dependent end (`Layout.turns`; default 1), used in the structure.
    - `choices` are pairs of an option of `variant` and the text of a usual value that the function allows.
    - `platform` is the platform of the lowering (`cpu`, `cuda`, `tpu`), empty if it is the same for all; `not_lowered`
      names the primitive that JAX cannot lower for the requested platform, in which case the program is lowered for
      CPU.
    - `own_partitioning` names the functions with `custom_partitioning`, with their lines.
    - `retrace` traces the program again with another remat policy, precision, offload or platform, each once; not
      pickled.
    """

    name: str
    arguments: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    carried: tuple[tuple[int, int], ...]
    operations: tuple[Operation, ...]
    module: bytes
    lowered: bytes
    fingerprint: str
    step: Step
    reference: Reference | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    former_dims: Mapping[str, str] = field(default_factory=dict)
    proposed: ProposedNames = NONE_PROPOSED
    remat: Remat = AS_TRACED
    precision: Precision = AS_WRITTEN
    offload: Offload = ALL_ON_DEVICE
    turns: tuple[tuple[str, int], ...] = ()
    platform: str = ""
    not_lowered: str = ""
    own_partitioning: tuple[str, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    manual_mesh: MeshAxes = ()
    retrace: "Callable[[Remat, Precision, Offload, str, MeshAxes], Program] | None" = None
    list_removed: Callable[[], tuple[RemovedValue, ...]] = field(default=tuple, repr=False)

    @cached_property
    def removed(self) -> tuple[RemovedValue, ...]:
        """Values that the function computes and the step does not; empty if the function is not available."""
        return self.list_removed()

    @cached_property
    def dims(self) -> Mapping[str, tuple[int, ...]]:
        """The sizes of each dimension name of the arguments, in order of appearance."""
        sizes: dict[str, dict[int, None]] = {}
        for tensor in self.arguments:
            for dim, size in zip(tensor.dims, tensor.shape, strict=True):
                sizes.setdefault(dim, {})[size] = None
        return {dim: tuple(values) for dim, values in sizes.items()}

    @property
    def state(self) -> tuple[int, ...]:
        """The indices of the arguments that persist between steps: parameters, optimizer state, model state."""
        return tuple(i for i, tensor in enumerate(self.arguments) if tensor.role in STATE)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The indices of the arguments that are new in each step."""
        return tuple(i for i, tensor in enumerate(self.arguments) if tensor.role not in STATE)

    @property
    def on_host(self) -> tuple[int, ...]:
        """The indices of the arguments kept in host memory between steps."""
        if not self.offload.optimizer_state:
            return ()
        return tuple(i for i, tensor in enumerate(self.arguments) if tensor.role is Role.OPTIMIZER_STATE and tensor.shape)

    @property
    def parameters(self) -> int:
        return sum(tensor.elements for tensor in self.arguments if tensor.role is Role.PARAMETER)

    def present_dim(self, name: str) -> str:
        """Return the current name of a dimension named by its size, such as `d1024`; other names are unchanged."""
        return name if name in self.dims else self.proposed.aliases.get(name, name)

    def rename(self, names: Mapping[str, str]) -> "Program":
        """Return the program with dimensions renamed. Raises `DimensionError` for unknown, invalid or ambiguous names."""
        names = {self.present_dim(old): new for old, new in names.items()}
        for old, new in names.items():
            if old not in self.dims:
                raise DimensionError(*unknown_name("dimension", old, self.dims))
            verify_dim_name(new)
        renamed = {traced: names.get(present, present) for traced, present in (self.renamed or {dim: dim for dim in self.dims}).items()}
        return replace(self.with_dims(names), renamed=renamed, proposed=self.proposed.renamed(names))

    def with_dims(self, names: Mapping[str, str]) -> "Program":
        """Return the program with other dimension names in its trace. Raises `DimensionError` as `rename` does."""

        def dims(old: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(names.get(dim, dim) for dim in old)

        arguments = tuple(replace(value, dims=dims(value.dims)) for value in self.arguments)
        verify_unique_dims(arguments)
        return replace(
            self,
            arguments=arguments,
            results=tuple(replace(value, dims=dims(value.dims)) for value in self.results),
            operations=tuple(replace(value, dims=dims(value.dims)) for value in self.operations),
        )

    def with_turns(self, turns: tuple[tuple[str, int], ...]) -> "Program":
        """Return the program with these trip counts for loops with a data-dependent end."""
        return self if turns == self.turns else replace(self, turns=turns)

    @property
    def traced_with(self) -> str:
        """Tracing options in text form, such as `remat full, precision bfloat16`; empty for the defaults."""
        parts = {"remat": self.remat, "precision": self.precision, "offload": self.offload}
        return ", ".join(f"{name} {part}" for name, part in parts.items() if part not in (AS_TRACED, AS_WRITTEN, ALL_ON_DEVICE))

    def for_platform(self, platform: str) -> "Program":
        """Return the program lowered for this platform; unchanged if its function is not available."""
        if self.platform in ("", platform) or self.retrace is None:
            return self
        return self._traced(self.remat, self.precision, self.offload, platform, self.manual_mesh)

    def for_mesh(self, axes: MeshAxes) -> "Program":
        """Trace the program again if its `shard_map` uses the same axes with other sizes. Otherwise return it unchanged, also if its
        function is not available.

        Raises `TraceError` if the function cannot be traced over this mesh.
        """
        lacks = not {name for name, _ in self.manual_mesh} <= {name for name, _ in axes}
        if lacks or _without_ones(axes) == _without_ones(self.manual_mesh) or not self.manual_mesh or self.retrace is None:
            return self
        try:
            found = self._traced(self.remat, self.precision, self.offload, self.platform, axes)
        except TraceError as error:
            raise self._mesh_error(axes, error.message, error.ways_out) from error
        if found.manual_mesh != axes:
            raise self._mesh_error(axes, "its mesh does not come from its variables.", ["trace it again with that mesh"])
        if [each.shape for each in (*found.arguments, *found.results)] != [each.shape for each in (*self.arguments, *self.results)]:
            raise self._mesh_error(axes, "its results have other shapes there.", ["compute shapes from `jax.lax.axis_size`"])
        return found

    def _mesh_error(self, axes: MeshAxes, reason: str, ways_out: Sequence[str]) -> TraceError:
        traced, wanted = (" ".join(f"{name}:{size}" for name, size in mesh) for mesh in (self.manual_mesh, axes))
        return TraceError(
            f"`{self.name}` has a shard_map over {traced} and cannot be traced over {wanted}: {reason}", [f"keep {traced}", *ways_out]
        )

    def variant(self, *, remat: Remat | None = None, precision: Precision | None = None, offload: Offload | None = None) -> "Program":
        """Retrace with another remat, precision or offload. Raises their errors, or `TraceError` without the function."""
        traced_as = remat or self.remat, precision or self.precision, offload or self.offload
        if traced_as == (self.remat, self.precision, self.offload):
            return self
        if self.retrace is None:
            raise TraceError(f"`{self.name}` cannot be retraced: its function is not available.", ["build the program in this process"])
        return self._traced(*traced_as, self.platform, self.manual_mesh)

    def _traced(self, remat: Remat, precision: Precision, offload: Offload, platform: str, mesh: MeshAxes) -> "Program":
        retraced = self.retrace and self.retrace(remat, precision, offload, platform, mesh)
        program = replace(retraced or self, reference=self.reference, former_dims=self.former_dims, turns=self.turns)
        renamed = {traced: present for traced, present in self.renamed.items() if traced != present}
        return program.rename(renamed) if renamed else program

    def __post_init__(self) -> None:
        if self.reference is not None:
            _remember_reference(self.reference)

    def __getstate__(self) -> dict[str, Any]:
        sent_state = {name: value for name, value in self.__dict__.items() if name != CACHE_ATTRIBUTE}
        return {**sent_state, "retrace": None, "list_removed": tuple}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return self is other or (self.fingerprint == other.fingerprint and self.identity == other.identity)

    @property
    def identity(self) -> tuple[Any, ...]:
        """The cache key shared by equal programs; it does not refer to the programs."""
        return self.fingerprint, self.remat, self.precision, self.offload, self.turns, self._names_digest

    @cached_property
    def _names_digest(self) -> bytes:
        """Fast comparison key of tensors and paths; without source lines, which depend on the tracing process."""
        paths = "\n".join(operation.path for operation in self.operations)
        return blake2b(f"{self.arguments}{self.results}{self.carried}{paths}".encode(errors="surrogatepass")).digest()

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        names = ", ".join(self.proposed.unconfirmed)
        proposed = f"; names from use: {names}, others by `dims=` or `.rename(...)`" if names else ""
        return f"Program({self.name!r}: {len(self.arguments)} arguments, {len(self.operations)} operations{proposed})"


_built_here: set[str] = set()
_MOST_REMEMBERED = 10_000  # zoo models with their arguments; functions are few and always remembered


def _remember_reference(reference: Reference) -> None:
    if ":" in reference.target or len(_built_here) < _MOST_REMEMBERED:
        _built_here.add(_reference_key(reference))


def was_built_in_process(reference: Reference) -> bool:
    """Return whether this process built or traced the reference (not unpickled it), so that documents may name it."""
    return _reference_key(reference) in _built_here


def _reference_key(reference: Reference) -> str:
    return reference.target if ":" in reference.target else str(reference)


def verify_unique_dims(arguments: tuple[Tensor, ...]) -> None:
    for tensor in arguments:
        for dim in tensor.dims:
            if tensor.dims.count(dim) > 1:
                raise DimensionError(
                    f"`{tensor}` would have two dimensions named `{dim}`; a rule for `{dim}` would be ambiguous.",
                    [f"name the second one, for example, `{dim}_out`"],
                )


# Inference steps carry a cache from step to step.


CACHE, BATCH = "cache", "batch"


def carries_cache(program: Program) -> bool:
    """Return whether a program takes and returns a cache, as made by `trace_inference`: a prefill or a decoding step."""
    return any(tensor.role is Role.MODEL_STATE and tensor.path.split("/")[0] == CACHE for tensor in program.arguments)


def decoded_sequences(program: Program) -> int:
    """Return the batch size of a decoding step; 0 for any other program, whose inputs have several tokens per sequence."""
    batch = program.dims.get(BATCH, (0,))[0]
    is_one_token = all(program.arguments[i].elements <= batch for i in program.inputs)
    return batch if carries_cache(program) and is_one_token else 0
