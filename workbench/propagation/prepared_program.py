"""A lowered module and the user's names, made into a `Program`; and a program's parsed module, ready for edits, in the cache."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Operation, Program, Reference, Step, verify_unique_dims
from workbench.core.proposed_names import ProposedName, ProposedNames
from workbench.core.tensor import Tensor
from workbench.propagation.module.calls import call_composites, scope_in_call
from workbench.propagation.module.hlo_form import KIND
from workbench.propagation.module.infer_dim_names import Names, Naming, name_dimensions
from workbench.propagation.module.location import readable_path, source_of
from workbench.propagation.module.mlir_context import main_function, module_bytes, parse_module
from workbench.propagation.module.operation_kinds import CONSTANTS, manual_axes, operations_below
from workbench.propagation.module.prepare_module import prepare
from workbench.propagation.module.shardy_attributes import dtype_name
from workbench.propagation.module.source_meshes import merge_meshes
from workbench.propagation.structure.program_structure import Structure
from workbench.propagation.structure.read_structure import read_structure

_MOST_REPEATED = 5  # dimensions of one name in an argument


class Prepared(NamedTuple):
    """The module that an edit clones, and the structure it is read against."""

    module: ir.Module
    structure: Structure


def prepare_program(
    name: str,
    module: ir.Module,
    arguments: Sequence[Tensor],
    results: Sequence[Tensor],
    carried: tuple[tuple[int, int], ...],
    given: dict[str, Names],
    step: Step,
    reference: Reference | None,
) -> Program:
    """Prepare the module for edits and name all dimensions; tensors come in with empty names."""
    fingerprint = hashlib.sha256(module.operation.get_asm().encode()).hexdigest()[:16]
    with module.context, ir.Location.unknown():
        merge_meshes(module.operation)
        call_composites(module.operation)
    lowered = module_bytes(module)
    prepare(module)
    naming = Naming(module)
    dims = name_dimensions(naming, arguments, given)
    named = tuple(replace(tensor, dims=names) for tensor, names in zip(arguments, dims, strict=True))
    verify_unique_dims(named)
    becomes = dict(carried)
    outputs = tuple(
        replace(tensor, dims=named[becomes[i]].dims if i in becomes else _value_dims(naming, naming.returned[i])[: len(tensor.shape)])
        for i, tensor in enumerate(results)
    )
    operations = tuple(_operation(op, naming) for op in operations_below(main_function(module.operation)))
    program = Program(name, named, outputs, carried, operations, module_bytes(module), lowered, fingerprint, step, reference)
    return replace(program, proposed=_size_names(naming, program))


def _size_names(naming: Naming, program: Program) -> ProposedNames:
    """The names after sizes, also of the second dimension of one size in an argument: `d32_2`."""
    known = {*naming.size_names, *(f"{each}_{i}" for each in naming.size_names for i in range(2, _MOST_REPEATED))}
    return ProposedNames(tuple(ProposedName(dim, dim, "not named") for dim in program.dims if dim in known))


@cache_with_program(1000)
def load_prepared(program: Program) -> Prepared:
    """The program's module and structure, parsed once."""
    parsed = parse_module(program.module)
    return Prepared(parsed, read_structure(parsed))


def structure_of(program: Program) -> Structure:
    """The structure that Shardy's answer is read against."""
    return load_prepared(program).structure


def _path_of(op: ir.Operation, scope: str = "") -> str:
    return readable_path(scope_in_call(op, scope))


def place_of(op: ir.Operation, scope: str) -> tuple[str, str, int]:
    """The path and the source line of an operation in a call of this scope, and the rank of its first result; -1 if that is no tensor."""
    is_value = len(op.results) and isinstance(op.results[0].type, ir.RankedTensorType) and op.name not in CONSTANTS
    return _path_of(op, scope), source_of(op.location), ir.RankedTensorType(op.results[0].type).rank if is_value else -1


def _operation(op: ir.Operation, naming: Naming) -> Operation:
    location, path = op.location, _path_of(op)
    kind = ir.StringAttr(op.attributes[KIND]).value if KIND in op.attributes else op.name.partition(".")[2]
    manual = manual_axes(op)
    if not len(op.results) or not isinstance(op.results[0].type, ir.RankedTensorType):
        return Operation(path, kind, (), "", (), source_of(location), manual)
    value = naming.value(op.results[0])
    dtype = dtype_name(str(op.results[0].type.element_type))
    return Operation(path, kind, naming.shapes[value], dtype, _value_dims(naming, value), source_of(location), manual)


def _value_dims(naming: Naming, value: int) -> tuple[str, ...]:
    """Names of an intermediate value's dimensions; `_` for one that no argument's name reaches."""
    return tuple(naming.names.get((value, d), "_") for d in range(len(naming.shapes[value])))
