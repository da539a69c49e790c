"""A traced program: named tensors, the operations between them, and the StableHLO that Shardy partitions; whether it is a step of
inference. No device is used."""

from collections.abc import Callable, Mapping
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
CACHE_ATTRIBUTE = "_kept"  # what `derived_value_cache` keeps with a program, in its `__dict__`; it is never sent anywhere


@dataclass(frozen=True, slots=True)
class Reference:
    """How a plan document names a program, without carrying code.

    `target` is a model of the zoo (`gpt`) or an importable function that returns a `Program`
    (`package.module:function`); `arguments` are its keyword arguments, JSON values only.
    """

    target: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.target}({', '.join(f'{key}={value!r}' for key, value in self.arguments.items())})"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the traced program: what no layout changes. Its index in `Program.operations` is its id.

    `path` is its named scope and primitive (`blocks/mlp/dot_general`), under `grad/` in the backward pass;
    `kind` the StableHLO operation; `source` the user's line (`gpt.py:42`); shape and dims are of the first result. `manual` are the mesh
    axes of the `shard_map` that contains it, if any: its shape is then that on one of their devices.
    """

    path: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str, ...]
    source: str
    manual: tuple[str, ...] = ()


class RemovedValue(NamedTuple):
    """A value of the function that the step does not compute, why, and what to do instead."""

    path: str
    source: str
    why: str
    ways_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Training:
    """The parts of a training step: `loss(params, batch)`, the optimiser, the pytrees of parameters and batch.

    `moments` is the type of the optimiser's state where it is not that of the parameters, `sums` that of the gradients of micro-batches, as
    in `Precision`.
    """

    loss: Callable[..., Any]
    optimizer: Any
    params: Any
    batch: Any
    moments: str | None = None
    sums: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What the engine calls to run a program; planning never does. Argument and result leaves are in the order of the program's tensors.

    - `call(*arguments) -> results`, traceable;
    - `initialize(key, given) -> state leaves`, traceable, so that state is born sharded; `given` are the arrays at `given_indices`;
    - `feed(step) -> input leaves` as NumPy arrays on the host, equal on every process;
    - `loss` is the index of the result that is the loss, if there is one;
    - `training`: the parts of a training step, for those who take it apart again (pipelines); `None` for any other function.
    - `written`: how the program lays out its arguments itself.
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

    - `arguments` and `results` are in the order of `main`'s arguments and results in `module`, which Shardy propagates, and in `lowered`,
      the same program as XLA is given it.
    - `carried` pairs a result with the argument it becomes in the next step; both have one sharding, and the argument's memory is donated.
    - Dimension names are unique within an argument.
    - `renamed` maps every dimension name of the trace to its present one; it is empty until the first renaming.
    - `former_dims` maps dimension names of earlier versions of the model to those of the trace, so that layouts and documents written
      with them can be read.
    - `proposed` are the dimensions that the user did not name, with the names that the trace proposes and the reasons.
    - Two programs are equal if their StableHLO, names, remat, precision and offload are; `step` is not compared.
    - `turns` say how often loops run whose trip count is not known (`Layout.turns`), else once; the structure counts them so.
    - `named_values` are the names of `checkpoint_name` in the function of a training step, which remat can speak of.
    - `platform` is that for which the program was lowered (`cpu`, `cuda`, `tpu`), empty if it is the same for all; `not_lowered` names the
      primitive that JAX cannot lower for the platform that was asked for: the program is then as for CPUs.
    - `own_partitioning` names the functions with a partitioning of their own (`custom_partitioning`), with their lines.
    - `retrace` makes the same program under another remat policy, precision and offload, and for a platform, each once; pickling drops it.
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
    named_values: tuple[str, ...] = ()
    retrace: "Callable[[Remat, Precision, Offload, str], Program] | None" = None
    list_removed: Callable[[], tuple[RemovedValue, ...]] = field(default=tuple, repr=False)

    @cached_property
    def removed(self) -> tuple[RemovedValue, ...]:
        """What the function computes and the step does not; found on first use, empty where the function is not available."""
        return self.list_removed()

    @cached_property
    def dims(self) -> Mapping[str, tuple[int, ...]]:
        """Each dimension name of the arguments with the sizes it has, in order of appearance."""
        sizes: dict[str, dict[int, None]] = {}
        for tensor in self.arguments:
            for dim, size in zip(tensor.dims, tensor.shape, strict=True):
                sizes.setdefault(dim, {})[size] = None
        return {dim: tuple(each) for dim, each in sizes.items()}

    @property
    def state(self) -> tuple[int, ...]:
        """The indices of the arguments that live from step to step: parameters, optimiser state, model state."""
        return tuple(i for i, tensor in enumerate(self.arguments) if tensor.role in STATE)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The indices of the arguments that are new in each step."""
        return tuple(i for i, tensor in enumerate(self.arguments) if tensor.role not in STATE)

    @property
    def on_host(self) -> tuple[int, ...]:
        """The indices of the arguments that are in the host's memory between steps."""
        if not self.offload.optimizer_state:
            return ()
        return tuple(i for i, tensor in enumerate(self.arguments) if tensor.role is Role.OPTIMIZER_STATE and tensor.shape)

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return sum(tensor.elements for tensor in self.arguments if tensor.role is Role.PARAMETER)

    def present_dim(self, name: str) -> str:
        """The present name of a dimension that may be called after its size, `d1024`; any other name as it is."""
        return name if name in self.dims else self.proposed.aliases.get(name, name)

    def rename(self, names: Mapping[str, str]) -> "Program":
        """The program with dimensions renamed.

        Raises `DimensionError` if a name does not exist or cannot be one, or two dimensions of one argument would share a name.
        """
        names = {self.present_dim(old): new for old, new in names.items()}
        for old, new in names.items():
            if old not in self.dims:
                raise DimensionError(*unknown_name("dimension", old, self.dims))
            verify_dim_name(new)
        renamed = {traced: names.get(now, now) for traced, now in (self.renamed or {dim: dim for dim in self.dims}).items()}
        return replace(self.with_dims(names), renamed=renamed, proposed=self.proposed.renamed(names))

    def with_dims(self, names: Mapping[str, str]) -> "Program":
        """The program with other dimension names, which are those of the trace. Raises `DimensionError` as `rename` does."""

        def dims(old: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(names.get(dim, dim) for dim in old)

        arguments = tuple(replace(each, dims=dims(each.dims)) for each in self.arguments)
        verify_unique_dims(arguments)
        return replace(
            self,
            arguments=arguments,
            results=tuple(replace(each, dims=dims(each.dims)) for each in self.results),
            operations=tuple(replace(each, dims=dims(each.dims)) for each in self.operations),
        )

    def with_turns(self, turns: tuple[tuple[str, int], ...]) -> "Program":
        """The program whose loops of unknown trip count are counted so often."""
        return self if turns == self.turns else replace(self, turns=turns)

    @property
    def traced_with(self) -> str:
        """How it was traced, `remat full, precision bfloat16`; empty for a program as its function says."""
        parts = {"remat": self.remat, "precision": self.precision, "offload": self.offload}
        return ", ".join(f"{name} {each}" for name, each in parts.items() if each not in (AS_TRACED, AS_WRITTEN, ALL_ON_DEVICE))

    def for_platform(self, platform: str) -> "Program":
        """The program as JAX lowers it for this platform; itself where it was traced elsewhere, and the function is not here."""
        if self.platform in ("", platform) or self.retrace is None:
            return self
        return self._traced(self.remat, self.precision, self.offload, platform)

    def variant(self, *, remat: Remat | None = None, precision: Precision | None = None, offload: Offload | None = None) -> "Program":
        """The program traced again with another remat policy, precision or offload; it keeps the names of this one.

        Raises `RematError`, `PrecisionError`, `OffloadError` where they do not fit the function, `TraceError` if that is not available.
        """
        traced_as = remat or self.remat, precision or self.precision, offload or self.offload
        if traced_as == (self.remat, self.precision, self.offload):
            return self
        if self.retrace is None:
            raise TraceError(f"`{self.name}` cannot be retraced: its function is not available.", ["build the program in this process"])
        return self._traced(*traced_as, self.platform)

    def _traced(self, remat: Remat, precision: Precision, offload: Offload, platform: str) -> "Program":
        made = self.retrace and self.retrace(remat, precision, offload, platform)
        found = replace(made or self, reference=self.reference, former_dims=self.former_dims, turns=self.turns)
        renamed = {traced: now for traced, now in self.renamed.items() if traced != now}
        return found.rename(renamed) if renamed else found

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
        """The key that equal programs have in common; it does not hold the programs themselves."""
        return self.fingerprint, self.remat, self.precision, self.offload, self.turns, self._names_digest

    @cached_property
    def _names_digest(self) -> bytes:
        """A digest of tensors and paths: programs are keys of caches, and one that was rebuilt is often compared with its equals.

        Paths are part of it, for constraints name them; source lines are not, for they depend on who traced.
        """
        paths = "\n".join(each.path for each in self.operations)
        return blake2b(f"{self.arguments}{self.results}{self.carried}{paths}".encode(errors="surrogatepass")).digest()

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        names = ", ".join(self.proposed.unconfirmed)
        proposed = f"; names from use: {names}, others by `dims=` or `.rename(...)`" if names else ""
        return f"Program({self.name!r}: {len(self.arguments)} arguments, {len(self.operations)} operations{proposed})"


_built_here: set[str] = set()
_MOST_REMEMBERED = 10_000  # models of the zoo, with any arguments; functions are few, and all of them are remembered


def _remember_reference(reference: Reference) -> None:
    if ":" in reference.target or len(_built_here) < _MOST_REMEMBERED:
        _built_here.add(_reference_key(reference))


def is_built_here(reference: Reference) -> bool:
    """Whether this model of the zoo, or a program of this function, was built or traced in this process, so that a document may name it.

    Unpickled programs do not count.
    """
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


# Programs that are a step of inference: they carry a cache from step to step, and learn nothing.


CACHE, BATCH = "cache", "batch"


def carries_cache(program: Program) -> bool:
    """Whether a program takes a cache and gives it back, as `trace_inference` has it: a prefill or a step of decoding."""
    return any(each.role is Role.MODEL_STATE and each.path.split("/")[0] == CACHE for each in program.arguments)


def decoded_sequences(program: Program) -> int:
    """How many sequences get a token in a step of decoding, its batch; 0 for any other program: it is given more than a token of each."""
    batch = program.dims.get(BATCH, (0,))[0]
    small = all(program.arguments[each].elements <= batch for each in program.inputs)
    return batch if carries_cache(program) and small else 0
