"""Group a program into kernels as an eager runtime does: one kernel per library call, without fusion.

A call is a dot, a hand-written kernel, or the chain of operations that one source line computes in one named scope and
direction: `jax.nn.softmax(scores)` is PyTorch's softmax, with one forward and one backward kernel. A line that
processes several tensors makes as many calls, except in the optimizer. Views, broadcasts, constants and markers are
free; single integers, such as loop counters, belong to the host; and stacked loop results stay where each iteration
computed them.
"""

from collections.abc import Sequence
from dataclasses import replace

from workbench.core.precision import SCALED_PRODUCT
from workbench.core.program import Program
from workbench.cost.fusion.fuse_operations import FREE, KernelGrouping
from workbench.cost.fusion.kernel_table import KernelDraft, Kernels
from workbench.propagation.module.operation_kinds import DOTS, ELEMENTWISE
from workbench.propagation.structure.program_structure import Op, Structure
from workbench.propagation.structure.stored_values import PASSING, VIEWING

_UPDATE = "stablehlo.dynamic_update_slice"
_MULTI_TENSOR = ("optimizer", "accumulate")  # scopes with one kernel for many tensors in PyTorch (`foreach`, `fused`)
_UPDATING = ("optimizer", "accumulate", "reduce", "cast")  # scopes that process every parameter alike (`trace_update`)
_GRAD_SUM = "accumulate"
_CASTING = "quantize/cast"  # to float8: widened in registers
_STACKING = "dynamic_update_index_in_dim"  # the scope in which `lax.scan` stacks its results
_MARKS = PASSING | {"stablehlo.reduce_precision"}
"""Operations that only mark precision, sharding or recomputation."""


def eager_kernels_of(
    program: Program, structure: Structure, dtypes: Sequence[str] = (), *, sums_in_products: bool = False, widens: bool = False
) -> Kernels:
    """Return the kernels as called by an eager runtime; for `dtypes` and `widens` see `kernels_of`."""
    calls = tuple((operation.path.rpartition("/")[0], operation.source) for operation in program.operations)
    kernels = _CallGrouping(
        structure, dtypes or [value.dtype for value in structure.values], calls, sums_in_products, widens=widens
    ).kernels()
    return replace(kernels, continuing=_list_continuing(kernels, [scope for scope, _ in calls]))


def _list_continuing(kernels: Kernels, scopes: Sequence[str]) -> frozenset[int]:
    """List kernels started by an earlier kernel's call: an update step is called once for all tensors."""
    called: set[tuple[int, str]] = set()
    continuing = set()
    for kernel, op in enumerate(kernels.ops):
        call = kernels.regions[kernel], scopes[op]
        if scopes[op].partition("/")[0] in _UPDATING and call in called:
            continuing.add(kernel)
        called.add(call)
    return frozenset(continuing)


class _CallGrouping(KernelGrouping):
    def __init__(
        self, structure: Structure, dtypes: Sequence[str], calls: Sequence[tuple[str, str]], sums_in_products: bool, *, widens: bool
    ) -> None:
        self._calls, self._sums_in_products = calls, sums_in_products
        self._products: set[int] = set()
        self._called: dict[tuple[int, tuple[str, str]], int] = {}
        self._scaled: dict[str, int] = {}  # by scope: the kernel of its last float8 dot
        super().__init__(structure, dtypes, recomputes=False, widens=widens)

    def _group_operation(self, index: int, op: Op) -> None:
        if op.kind == _UPDATE and self._calls[index][0].endswith(_STACKING):
            for source in self._sources[op.operands[1]]:
                self._note_read(source, -1)
            self._sources[op.results[0]] = self._sources[op.operands[0]]
        elif op.kind in _MARKS or self._is_widened(index, op):
            for slot, result in enumerate(op.results):
                self._sources[result] = self._sources[op.operands[slot]]
        else:
            super()._group_operation(index, op)

    def _is_free(self, index: int, op: Op) -> bool:  # noqa: ARG002 -- as its base has it
        is_read = op.kind in VIEWING or op.kind in FREE or self._widens_operand(op)
        return not op.custom_kernel and (is_read or self._is_counted_by_host(op))

    def _is_counted_by_host(self, op: Op) -> bool:
        value = self._structure.values[op.results[0]] if op.results else None
        return op.kind in ELEMENTWISE and value is not None and not value.shape and "float" not in value.dtype

    def _is_widened(self, index: int, op: Op) -> bool:
        if op.kind != "stablehlo.convert" or not self._calls[index][0].endswith(_CASTING):
            return False
        return self._structure.values[op.results[0]].dtype == "float32"

    def _choose_kernel(self, index: int, op: Op) -> int:
        scope = self._calls[index][0]
        key = op.region, self._calls[index]
        read = {source.kernel for source in self._all_sources(op)}
        if op.kind not in DOTS and self._scaled.get(scope) in read:  # epilogue of that dot
            return self._scaled[scope]
        if self._sums_in_products and scope.startswith(_GRAD_SUM) and not self._products.isdisjoint(read):
            return max(self._products & read)
        called = self._called.get(key, -1)
        is_part = called in read or self._calls[index][0].startswith(_MULTI_TENSOR)
        if op.kind not in DOTS and is_part and called >= max(read, default=0) and called >= 0:
            return called
        self._kernels.append(KernelDraft(op.region, set(), op.position, is_plain=False))
        if op.kind not in DOTS:
            self._called[key] = len(self._kernels) - 1
            return len(self._kernels) - 1
        self._products.add(len(self._kernels) - 1)
        if scope.endswith(SCALED_PRODUCT):
            self._scaled[scope] = len(self._kernels) - 1
        return len(self._kernels) - 1
