"""Makes a `Program` of a lowered module and the user's names, caches its parsed module, and reads annotations and
source files from it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Operation, Program, Reference, Step, verify_unique_dims
from workbench.core.proposed_names import ProposedName, ProposedNames
from workbench.core.sharding import Sharding
from workbench.core.source_annotations import ManualRegion, SourceAnnotations, SourceConstraint, SourceType, WrittenShardings
from workbench.core.tensor import Tensor
from workbench.propagation.module.function_calls import call_composites, scope_in_call
from workbench.propagation.module.hlo_form import KIND
from workbench.propagation.module.infer_dim_names import Names, Naming, name_dimensions
from workbench.propagation.module.mlir_context import declared_axes, main_function, module_bytes, parse_module
from workbench.propagation.module.operation_kinds import CONSTANTS, axes_made_manual, manual_axes, operations_below
from workbench.propagation.module.prepare_module import prepare
from workbench.propagation.module.shardy_attributes import dtype_name, read_annotation, read_annotations
from workbench.propagation.module.source_location import readable_path, source_of, user_frame
from workbench.propagation.module.source_meshes import merge_meshes
from workbench.propagation.structure.program_structure import Structure
from workbench.propagation.structure.read_structure import read_structure

_MOST_REPEATED = 5  # dimensions of one name in an argument


class Prepared(NamedTuple):
    """The module that an edit clones, and its structure."""

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
    step = replace(step, written=_complete_written(step.written, module.operation))
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
    is_manual = any(op.name == "sdy.manual_computation" for op in operations_below(main_function(module.operation)))
    manual_mesh = tuple(declared_axes(module.operation).items()) if is_manual else ()
    return replace(program, proposed=_size_names(naming, program), manual_mesh=manual_mesh)


def _complete_written(written: WrittenShardings, module: ir.Operation) -> WrittenShardings:
    """Add the shardings in which a `shard_map` or constraint of the function uses arguments without their own."""
    main = main_function(module)
    first_uses = [_taken_as(argument) for argument in main.regions[0].blocks[0].arguments]
    if not any(first_uses):
        return written
    shardings = written.shardings or (None,) * len(first_uses)
    return WrittenShardings(
        tuple((declared_axes(module) | dict(written.mesh)).items()),
        written.explicit,
        tuple(first_use if sharding is None else sharding for sharding, first_use in zip(shardings, first_uses, strict=True)),
    )


def _taken_as(argument: ir.BlockArgument) -> Sharding | None:
    """The sharding in which the first `shard_map` or constraint uses an argument."""
    for use in argument.uses:
        op = use.owner.operation
        if op.name == "sdy.manual_computation":
            sharding = read_annotations(op.attributes["in_shardings"])[use.operand_number]
        elif op.name == "sdy.sharding_constraint":
            sharding = read_annotation(op.attributes["sharding"])
        else:
            continue
        return Sharding(tuple(dim or () for dim in sharding.dims))
    return None


def _size_names(naming: Naming, program: Program) -> ProposedNames:
    """The names after sizes, including `d32_2` for the second dimension of one size in an argument."""
    size_names = {*naming.size_names, *(f"{name}_{i}" for name in naming.size_names for i in range(2, _MOST_REPEATED))}
    return ProposedNames(tuple(ProposedName(dim, dim, "not named") for dim in program.dims if dim in size_names))


@cache_with_program(1000)
def load_prepared(program: Program) -> Prepared:
    """The program's module and structure, parsed once."""
    parsed = parse_module(program.module)
    return Prepared(parsed, read_structure(parsed, program.turns, frozenset(argument for _, argument in program.carried)))


def structure_of(program: Program) -> Structure:
    """The program's structure, against which Shardy's answer is read."""
    return load_prepared(program).structure


def _path_of(op: ir.Operation, scope: str = "") -> str:
    return readable_path(scope_in_call(op, scope))


def place_of(op: ir.Operation, scope: str) -> tuple[str, str, int]:
    """The path, source line and rank of the first result (-1 if no tensor) of an operation in a call of this scope."""
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
    return tuple(naming.names.get((value, d), "_") for d in range(len(naming.shapes[value])))


# The function's own annotations (`core.source_annotations.SourceAnnotations`), read from the prepared module.


@cache_with_program(5)
def source_annotations(program: Program) -> SourceAnnotations:
    """The sharding annotations in the traced function."""
    module, structure = load_prepared(program)
    with module.context:
        main = main_function(module.operation)
        annotating_kinds = structure.kinds & {"sdy.sharding_constraint", "sdy.manual_computation"}
        ops = list(operations_below(main)) if annotating_kinds else []
        return SourceAnnotations(
            tuple(declared_axes(module.operation).items()),
            _read_types(program, main),
            _read_constraints(program, ops),
            _read_regions(program, ops),
        )


def _read_types(program: Program, main: ir.Operation) -> tuple[SourceType, ...]:
    if "arg_attrs" not in main.attributes:
        return ()
    entries = [ir.DictAttr(attrs) for attrs in ir.ArrayAttr(main.attributes["arg_attrs"])]
    return tuple(
        SourceType(tensor.path, read_annotation(attrs["sdy.sharding"]))
        for tensor, attrs in zip(program.arguments, entries, strict=True)
        if "sdy.sharding" in attrs
    )


def _read_constraints(program: Program, ops: list[ir.Operation]) -> tuple[SourceConstraint, ...]:
    """Constraints with counts; one with all dimensions open has no effect and is left out."""
    counts: Counter[SourceConstraint] = Counter()
    for operation, op in zip(program.operations, ops, strict=False):
        if op.name != "sdy.sharding_constraint":
            continue
        sharding = read_annotation(op.attributes["sharding"])
        if sharding.named_axes or any(dim is not None for dim in sharding.dims):
            path = operation.path.removesuffix("/sharding_constraint") or operation.path
            counts[SourceConstraint(path, operation.source, operation.shape, operation.dtype, sharding, operation.manual)] += 1
    return tuple(
        SourceConstraint(item.path, item.source, item.shape, item.dtype, item.sharding, item.manual, times)
        for item, times in counts.items()
    )


def _read_regions(program: Program, ops: list[ir.Operation]) -> tuple[ManualRegion, ...]:
    return tuple(
        ManualRegion(
            operation.path,
            operation.source,
            axes_made_manual(op),
            read_annotations(op.attributes["in_shardings"]),
            read_annotations(op.attributes["out_shardings"]),
        )
        for operation, op in zip(program.operations, ops, strict=False)
        if op.name == "sdy.manual_computation"
    )


# The user's files that a program was traced from. Their paths come from its own module, never from a document or a page.


@cache_with_program(1)
def source_files(program: Program) -> Mapping[str, str]:
    """The path of each source file by its short name in reports (`gpt.py`); ambiguous names are left out."""
    paths_by_name: dict[str, set[str]] = {}
    for file in set(_files(load_prepared(program).module)):
        paths_by_name.setdefault(Path(file).name, set()).add(file)
    return {name: paths.pop() for name, paths in paths_by_name.items() if len(paths) == 1}


def _files(module: ir.Module) -> Iterator[str]:
    pending = [module.operation]
    while pending:
        op = pending.pop()
        if (frame := user_frame(op.location)) is not None:
            yield frame[0]
        pending += [inner.operation for region in op.regions for block in region for inner in block]
