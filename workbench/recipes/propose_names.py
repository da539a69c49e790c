"""Proposes names for unnamed dimensions from their roles: `batch`, `seq`, `heads`, `d_ff`, `d_model`, `vocab`,
`layers`, `experts`.

A dimension without a clear role keeps the name after its size.
"""

from collections.abc import Iterator
from dataclasses import replace

from workbench.core.program import Program
from workbench.core.proposed_names import ProposedNames
from workbench.core.tensor import Tensor
from workbench.recipes.choose_dims import batch_dim, expert_dims, sequence_dims
from workbench.recipes.dim_roles import DimRole, dim_roles
from workbench.recipes.naming_conventions import DimUse

_NAMES = {
    DimUse.VOCABULARY: "vocab",
    DimUse.WIDTH: "d_model",
    DimUse.LAYERS: "layers",
    DimUse.EXPERTS: "experts",
    DimUse.SEQUENCE: "seq",
    DimUse.HIDDEN: "d_ff",
    DimUse.HEADS: "heads",
}
_FEWER_HEADS = "kv_heads"
_WITH_FEWER = 2  # numbers of heads: of queries, and of keys and values
_WEIGHTS = ("w", "weight", "kernel")  # argument names that do not hold examples
_UNKNOWN = "no role visible from its use"
_LEADS = "leading dimension of the inputs"
_FIRST = "first dimension of the inputs that no weight has and no loop slices"


def propose_names(program: Program, known: ProposedNames | None = None) -> Program:
    """The program with proposed names in place of those after sizes; `known` are those of a variant of it, if any.

    User names stay, and no argument gets a name twice. Dimensions of one role and size share a name, such as `d_ff` of
    all layers; another size becomes `d_ff_2`.
    """
    unnamed = {item.name for item in program.proposed.dims}
    if not unnamed:
        return program
    if known is not None and {item.size_name for item in known.dims} == unnamed:
        return replace(program.with_dims(known.aliases), proposed=known)
    batch = batch_dim(program)
    names, reasons = _name_batch(program, batch, unnamed)
    roles = {dim: role for dim, role in _roles(program, batch) if dim in unnamed and dim not in names}
    used_names = {*program.dims} - unnamed | {*names.values()}
    for (role, _), dims in _group(program, roles).items():
        name = _free_name(role, used_names)
        used_names.add(name)
        for dim in dims:
            shared = name if not _would_repeat(program, names, dim, name) else _free_name(role, used_names)
            used_names.add(shared)
            names[dim] = shared
    reasons |= {dim: role.reason for dim, role in dim_roles(program, batch).items()} | {dim: role.reason for dim, role in roles.items()}
    for dim in unnamed - reasons.keys():
        reasons[dim] = _reason_unnamed(program, dim, batch)
    return replace(program.with_dims(names), proposed=program.proposed.proposing(names, reasons))


def _name_batch(program: Program, batch: str | None, unnamed: set[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Name the batch dimension and equal leading ones of inputs, unless a leading one may be a weight's."""
    if batch is None or (batch in unnamed and "batch" in {*program.dims}):
        return {}, {}
    inner = {dim for item in _inputs(program) for dim in item.dims[1:]} | {dim for i in program.state for dim in program.arguments[i].dims}
    leads = dict.fromkeys(item.dims[0] for item in _inputs(program) if item.dims[0] not in inner)
    is_of_data = any(item.dims[0] == batch and item.path.rstrip("_0123456789").lower() not in _WEIGHTS for item in _inputs(program))
    if batch in unnamed and not program.state and (len({program.dims[dim] for dim in leads}) > 1 or not is_of_data):
        return {}, dict.fromkeys(leads.keys() & unnamed, "inputs have several leading dimensions; any may be the batch")
    leading = {dim for dim in leads if program.dims[dim] == program.dims[batch]}
    name = "batch" if batch in unnamed else batch
    batch_names = dict.fromkeys(({batch} | leading) & unnamed, name)
    return batch_names, {dim: _LEADS if dim in leads else _FIRST for dim in batch_names}


def _inputs(program: Program) -> list[Tensor]:
    return [program.arguments[i] for i in program.inputs if program.arguments[i].dims]


def _roles(program: Program, batch: str | None) -> Iterator[tuple[str, DimRole]]:
    """The roles with a name; the first of a dimension counts."""
    roles = dim_roles(program, batch)
    seen: set[str] = set()
    sequence = DimRole(DimUse.SEQUENCE, "elements of a sequence: weight products treat them alike")
    experts = DimRole(DimUse.EXPERTS, "experts: separate weights for each")
    pairs = [
        *((dim, role) for dim, role in roles.items() if role.use not in (DimUse.HEADS, DimUse.HIDDEN)),
        *((dim, sequence) for dim in sequence_dims(program)),
        *((dim, role) for dim, role in roles.items() if role.is_split),
        *((dim, experts) for dim in expert_dims(program) if dim not in roles),
    ]
    for dim, role in pairs:
        if dim not in seen:
            seen.add(dim)
            yield dim, role


def _group(program: Program, roles: dict[str, DimRole]) -> dict[tuple[str, tuple[int, ...]], list[str]]:
    """The dimensions by role name and size; the smaller of two numbers of heads is that of keys and values."""
    heads = {max(program.dims[dim]) for dim, role in roles.items() if role.use is DimUse.HEADS and not role.fused}
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for dim, role in roles.items():
        name = role.fused or _NAMES.get(role.use, "")
        if name == "heads" and len(heads) == _WITH_FEWER and max(program.dims[dim]) == min(heads):
            name = _FEWER_HEADS
        if name:
            groups.setdefault((name, program.dims[dim]), []).append(dim)
    return groups


def _free_name(name: str, taken: set[str]) -> str:
    number = next(i for i in range(1, len(taken) + 2) if (name if i == 1 else f"{name}_{i}") not in taken)
    return name if number == 1 else f"{name}_{number}"


def _would_repeat(program: Program, names: dict[str, str], dim: str, name: str) -> bool:
    return any(dim in item.dims and name in {names.get(other, other) for other in item.dims if other != dim} for item in program.arguments)


def _reason_unnamed(program: Program, dim: str, batch: str | None) -> str:
    if any(dim in tensor.dims and batch in tensor.dims for tensor in _inputs(program)):
        return "features of the inputs"
    return _UNKNOWN
