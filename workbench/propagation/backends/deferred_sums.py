"""Values that are only added to others, and sums that a loop only accumulates."""

from jax.extend.mlir import ir

_MOVES = ("stablehlo.transpose", "stablehlo.reshape", "sdy.all_slice")
_TRANSPARENT = (*_MOVES, "stablehlo.convert")


def find_sole_addition(op: ir.Operation, moves: tuple[str, ...] = _MOVES) -> ir.Operation | None:
    """The addition that alone reads an operation's result, perhaps reshaped or moved on the way."""
    while (user := _only_user(op)) is not None and user.name in moves:
        op = user
    return user if user is not None and user.name == "stablehlo.add" else None


def is_added_up(op: ir.Operation) -> bool:
    """Whether the result of an operation in a loop is only added to a value that the loop carries, and that is read by nothing else."""
    addition = find_sole_addition(op, _TRANSPARENT)
    carried = [each for value in addition.operands if (each := _find_loop_argument(value)) is not None] if addition is not None else []
    if addition is None or len(carried) != 1:
        return False
    last = addition
    while (user := _only_user(last)) is not None and user.name in _TRANSPARENT:
        last = user
    return user is not None and user.name == "stablehlo.return" and user.operands[carried[0].arg_number] == last.results[0]


def _find_loop_argument(value: ir.Value) -> ir.BlockArgument | None:
    """The argument of a loop's body that a value is, perhaps reshaped or cast, if nothing else reads it."""
    while len(list(value.uses)) == 1:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return ir.BlockArgument(value) if owner.owner.operation.name == "stablehlo.while" else None
        if owner.operation.name not in _TRANSPARENT:
            return None
        value = owner.operation.operands[0]
    return None


def _only_user(op: ir.Operation) -> ir.Operation | None:
    uses = list(op.results[0].uses)
    return uses[0].owner.operation if len(uses) == 1 else None
