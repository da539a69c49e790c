"""Names for the dimensions that the user did not name, from their roles: `batch`, `seq`, `heads`, `d_ff`, `d_model`, `vocab`, `layers`,
`experts`. A dimension without a clear role keeps the name after its size."""

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
_WITH_FEWER = 2  # sizes of heads: those of queries, and of keys and values
_WEIGHTS = ("w", "weight", "kernel")  # what an argument is called that is none of examples
_UNKNOWN = "no role visible from its use"
_LEADS = "leading dimension of the inputs"
_FIRST = "first dimension of the inputs that no weight has and no loop slices"


def propose_names(program: Program, known: ProposedNames | None = None) -> Program:
    """The program with proposed names in place of those after sizes: those `known` of a variant of it, if any.

    Names of the user's stay, and no argument gets a name twice. Dimensions of one role and size share a name, as all `d_ff` of all layers;
    of another size they are `d_ff_2`.
    """
    unnamed = {each.name for each in program.proposed.dims}
    if not unnamed:
        return program
    if known is not None and {each.size_name for each in known.dims} == unnamed:
        return replace(program.with_dims(known.aliases), proposed=known)
    batch = batch_dim(program)
    names, reasons = _name_batch(program, batch, unnamed)
    roles = {dim: role for dim, role in _roles(program, batch) if dim in unnamed and dim not in names}
    taken = {*program.dims} - unnamed | {*names.values()}
    for (role, _), dims in _group(program, roles).items():
        name = _free_name(role, taken)
        taken.add(name)
        for dim in dims:
            shared = name if not _would_repeat(program, names, dim, name) else _free_name(role, taken)
            taken.add(shared)
            names[dim] = shared
    reasons |= {dim: role.reason for dim, role in dim_roles(program, batch).items()} | {dim: role.reason for dim, role in roles.items()}
    for dim in unnamed - reasons.keys():
        reasons[dim] = _reason_unnamed(program, dim, batch)
    return replace(program.with_dims(names), proposed=program.proposed.proposing(names, reasons))


def _name_batch(program: Program, batch: str | None, unnamed: set[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The examples' dimension is `batch`, and so is the leading one of other inputs of its size. Where no argument is known to be a
    weight, and inputs have several leading sizes, one of them may be a weight: none is `batch` then."""
    if batch is None or (batch in unnamed and "batch" in {*program.dims}):
        return {}, {}
    inner = {dim for each in _inputs(program) for dim in each.dims[1:]} | {dim for i in program.state for dim in program.arguments[i].dims}
    leads = dict.fromkeys(each.dims[0] for each in _inputs(program) if each.dims[0] not in inner)
    is_of_data = any(each.dims[0] == batch and each.path.rstrip("_0123456789").lower() not in _WEIGHTS for each in _inputs(program))
    if batch in unnamed and not program.state and (len({program.dims[dim] for dim in leads}) > 1 or not is_of_data):
        return {}, dict.fromkeys(leads.keys() & unnamed, "inputs have several leading dimensions; any may be the batch")
    leading = {dim for dim in leads if program.dims[dim] == program.dims[batch]}
    name = "batch" if batch in unnamed else batch
    found = dict.fromkeys(({batch} | leading) & unnamed, name)
    return found, {dim: _LEADS if dim in leads else _FIRST for dim in found}


def _inputs(program: Program) -> list[Tensor]:
    return [program.arguments[i] for i in program.inputs if program.arguments[i].dims]


def _roles(program: Program, batch: str | None) -> Iterator[tuple[str, DimRole]]:
    """The roles that have a name, the first of a dimension counts."""
    known = dim_roles(program, batch)
    seen: set[str] = set()
    sequence = DimRole(DimUse.SEQUENCE, "elements of a sequence: weight products treat them alike")
    experts = DimRole(DimUse.EXPERTS, "experts: separate weights for each")
    pairs = [
        *((dim, role) for dim, role in known.items() if role.use not in (DimUse.HEADS, DimUse.HIDDEN)),
        *((dim, sequence) for dim in sequence_dims(program)),
        *((dim, role) for dim, role in known.items() if role.is_split),
        *((dim, experts) for dim in expert_dims(program) if dim not in known),
    ]
    for dim, role in pairs:
        if dim not in seen:
            seen.add(dim)
            yield dim, role


def _group(program: Program, roles: dict[str, DimRole]) -> dict[tuple[str, tuple[int, ...]], list[str]]:
    """The dimensions by the name of their role and their size; the smaller of two sizes of
    heads are those of keys and values."""
    heads = {max(program.dims[dim]) for dim, role in roles.items() if role.use is DimUse.HEADS and not role.fused}
    found: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for dim, role in roles.items():
        name = role.fused or _NAMES.get(role.use, "")
        if name == "heads" and len(heads) == _WITH_FEWER and max(program.dims[dim]) == min(heads):
            name = _FEWER_HEADS
        if name:
            found.setdefault((name, program.dims[dim]), []).append(dim)
    return found


def _free_name(name: str, taken: set[str]) -> str:
    number = next(i for i in range(1, len(taken) + 2) if (name if i == 1 else f"{name}_{i}") not in taken)
    return name if number == 1 else f"{name}_{number}"


def _would_repeat(program: Program, names: dict[str, str], dim: str, name: str) -> bool:
    return any(dim in each.dims and name in {names.get(other, other) for other in each.dims if other != dim} for each in program.arguments)


def _reason_unnamed(program: Program, dim: str, batch: str | None) -> str:
    if any(dim in each.dims and batch in each.dims for each in _inputs(program)):
        return "features of the inputs"
    return _UNKNOWN
