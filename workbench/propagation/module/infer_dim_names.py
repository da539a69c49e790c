"""Infers a name for every dimension of a program from the user's names, by Shardy's op sharding rules.

A name spreads, breadth first, over dimensions that a rule gives one factor of the same size; so `d_ff` of the first and
of the second matrix are one dimension. A user's name is never overwritten. The same position in repeated layers gets
the same name. Dimensions that no name reaches are named after their size: `d768`, and `d768_b` for another dimension of
that size; a trace then proposes names from roles for these (`recipes.propose_names`).
"""

import functools
import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.core.path_patterns import template
from workbench.core.tensor import Role, Tensor
from workbench.propagation.module.loops import max_trip_count, scanned_dimensions, trip_count
from workbench.propagation.module.mlir_context import main_function
from workbench.propagation.module.operation_kinds import CONTROL_FLOW

Node = tuple[int, int]  # (value, dimension)
Names = tuple[str | None, ...]


def value_names(tensor: Tensor, rank: int) -> tuple[str, ...]:
    """Names of the dimensions of an argument or result in the partitioner's representation.

    A random key is an array of words there, `uint32[2]`, whose last dimension has no name and is never split.

    >>> value_names(Tensor("key", (8,), "key<fry>", ("batch",), Role.INPUT), rank=2)
    ('batch', '_')
    """
    return (*tensor.dims, *("_",) * (rank - len(tensor.dims)))


class Naming:
    """The dimensions of a module as nodes, and the groups of nodes that are one dimension.

    Values are numbered in order of appearance: first the arguments of main, then results and block arguments.
    """

    def __init__(self, module: ir.Module) -> None:
        self._ids: dict[ir.Value, int] = {}
        self.shapes: list[tuple[int, ...]] = []
        self._groups: list[tuple[Node, ...]] = []
        self._groups_of: dict[Node, list[int]] = {}
        self.names: dict[Node, str] = {}
        self.size_names: list[str] = []
        main = main_function(module.operation)
        for argument in main.regions[0].blocks[0].arguments:
            self.value(argument)
        self.returned = self._read_groups(main)

    def value(self, value: ir.Value) -> int:
        number = self._ids.get(value)
        if number is None:
            number = self._ids[value] = len(self.shapes)
            kind = value.type
            self.shapes.append(tuple(ir.RankedTensorType(kind).shape) if isinstance(kind, ir.RankedTensorType) else ())
        return number

    def _read_groups(self, parent: ir.Operation) -> list[int]:
        """Read the groups of all operations of a region; returns the operands of its last operation."""
        last: list[int] = []
        for region in parent.regions:
            for block in region.blocks:
                for item in block.operations:
                    op = item.operation
                    last = [self.value(operand) for operand in op.operands]
                    self._read_operation(op, last)
        return last

    def _read_operation(self, op: ir.Operation, operands: list[int]) -> None:
        results = [self.value(result) for result in op.results]
        if (rule := rule_of(op)) is not None:
            self._join_factors((*operands, *results), (*rule.operands, *rule.results))
        elif op.name in ("sdy.data_flow_edge", "sdy.sharding_constraint", "stablehlo.optimization_barrier"):
            for pair in zip(operands, results, strict=True):
                self._join_values(pair)
        elif op.name in CONTROL_FLOW:
            self._read_control_flow(op, operands, results)

    def _read_control_flow(self, op: ir.Operation, operands: list[int], results: list[int]) -> None:
        returned = [self._read_region(region) for region in op.regions]
        if op.name == "stablehlo.while":
            arguments = [[self.value(argument) for argument in region.blocks[0].arguments] for region in op.regions]
            for values in zip(operands, results, *arguments, returned[1], strict=True):
                self._join_values(values)
            trips = trip_count(op) or max_trip_count(op) or 1
            self._join([(self.value(value), i) for value, i in scanned_dimensions(op, trips) if trips > 1])
        elif op.name != "sdy.manual_computation":
            for values in zip(results, *returned, strict=True):
                self._join_values(values)

    def _read_region(self, region: ir.Region) -> list[int]:
        last: list[int] = []
        for item in region.blocks[0].operations:
            last = [self.value(operand) for operand in item.operation.operands]
            self._read_operation(item.operation, last)
        return last

    def _join_factors(self, values: Sequence[int], factors: Sequence[tuple[tuple[str, ...], ...]]) -> None:
        groups: dict[tuple[str, int], list[Node]] = {}
        for value, dims in zip(values, factors, strict=False):
            for i, dim in enumerate(dims):
                if len(dim) == 1 and i < len(self.shapes[value]) and self.shapes[value][i] > 1:
                    groups.setdefault((dim[0], self.shapes[value][i]), []).append((value, i))
        for group in groups.values():
            self._join(group)

    def _join_values(self, values: Sequence[int]) -> None:
        for i in range(len(self.shapes[values[0]])):
            self._join([(value, i) for value in values])

    def _join(self, group: list[Node]) -> None:
        nodes = tuple(dict.fromkeys(group))
        if len(nodes) > 1:
            for node in nodes:
                self._groups_of.setdefault(node, []).append(len(self._groups))
            self._groups.append(nodes)

    def reach(self, node: Node) -> set[Node]:
        """The node and all unnamed nodes of the same dimension."""
        reached, queue = {node}, [node]
        while queue:
            for group in self._groups_of.get(queue.pop(), ()):
                fresh = [other for other in self._groups[group] if other not in self.names and other not in reached]
                reached.update(fresh)
                queue += fresh
        return reached

    def spread_names(self, seeds: dict[Node, str]) -> None:
        fresh = {node: name for node, name in seeds.items() if node not in self.names}
        self.names.update(fresh)
        queue, done = deque(fresh), set()
        while queue:
            node = queue.popleft()
            for group in self._groups_of.get(node, ()):
                if group not in done:
                    done.add(group)
                    for other in self._groups[group]:
                        if other not in self.names:
                            self.names[other] = self.names[node]
                            queue.append(other)


Places = Sequence[tuple[tuple[str, int, int], Node]]  # each dimension of an argument: its position in a layer, and its node


def name_dimensions(naming: Naming, arguments: Sequence[Tensor], given: dict[str, Names]) -> list[tuple[str, ...]]:
    """Names of each argument's dimensions, unique within an argument; all other values are named in `naming`."""
    naming.spread_names({(i, d): name for i, tensor in enumerate(arguments) for d, name in enumerate(given.get(tensor.path, ())) if name})
    positions = tuple(_argument_positions(arguments))
    _spread_over_layers(naming, arguments, positions)
    _name_after_sizes(naming, arguments, positions)
    return _make_unique(naming, arguments, given)


def _spread_over_layers(naming: Naming, arguments: Sequence[Tensor], positions: Places) -> None:
    """Give unnamed dimensions the name of the same position in another layer, unless an argument would get a name
    twice.

    In a chain of equal matrices the output of one is the input of the next, and so cannot also be the output of the
    next.
    """
    name_at: dict[tuple[str, int, int], str] = {}
    refused: set[tuple[Node, str]] = set()
    is_changed = True
    while is_changed:
        is_changed = False
        for position, node in positions:
            if node in naming.names:
                name_at.setdefault(position, naming.names[node])
            elif position in name_at and (node, name_at[position]) not in refused:
                if _would_repeat(naming, arguments, node, name_at[position]):
                    refused.add((node, name_at[position]))
                else:
                    naming.spread_names({node: name_at[position]})
                    is_changed = True


def _would_repeat(naming: Naming, arguments: Sequence[Tensor], node: Node, name: str) -> bool:
    """Return whether naming a node would give two dimensions of one argument the same name."""
    reached: dict[int, int] = {}
    for value, dim in naming.reach(node):
        if value < len(arguments):
            others = (other for other in range(len(arguments[value].shape)) if other != dim)
            if reached.setdefault(value, dim) != dim or any(naming.names.get((value, other)) == name for other in others):
                return True
    return False


def _argument_positions(arguments: Sequence[Tensor]) -> Iterator[tuple[tuple[str, int, int], Node]]:
    for i, tensor in enumerate(arguments):
        for d, size in enumerate(tensor.shape):
            yield (template(tensor.path), d, size), (i, d)


def _name_after_sizes(naming: Naming, arguments: Sequence[Tensor], positions: Places) -> None:
    used_names = set(naming.names.values())
    for (_, _, size), node in positions:
        if node not in naming.names:
            name = next(name for name in _size_names(size) if name not in used_names)
            used_names.add(name)
            naming.size_names.append(name)
            naming.spread_names({node: name})
            _spread_over_layers(naming, arguments, positions)


def _size_names(size: int) -> Iterator[str]:
    yield f"d{size}"
    for i in count(1):
        yield f"d{size}_{chr(ord('a') + i) if i < 26 else i}"


def _make_unique(naming: Naming, arguments: Sequence[Tensor], given: dict[str, Names]) -> list[tuple[str, ...]]:
    """Number repeated names in an argument, `name_2`; state that mirrors a parameter copies its names."""
    dims: list[tuple[str, ...]] = []
    mirrors: dict[int, int] = {}
    parameters = {tensor.path.partition("/")[2]: i for i, tensor in enumerate(arguments) if tensor.role is Role.PARAMETER}
    for i, tensor in enumerate(arguments):
        mirrored = _find_mirrored(tensor, arguments, parameters)
        fixed = given.get(tensor.path, ())
        if mirrored is not None and not fixed:
            mirrors[i] = mirrored
            dims.append(())
            continue
        names: list[str] = []
        for d in range(len(tensor.shape)):
            name = naming.names[i, d]
            candidates = (name, *(f"{name}_{k}" for k in range(2, len(tensor.shape) + 2)))
            names.append(next(candidate for candidate in candidates if candidate not in names and candidate not in fixed[d + 1 :]))
        dims.append(tuple(names))
    return [dims[mirrors.get(i, i)] for i in range(len(dims))]


def _find_mirrored(tensor: Tensor, arguments: Sequence[Tensor], parameters: dict[str, int]) -> int | None:
    """The parameter that a leaf of optimizer state belongs to: same shape, and its path ends in the parameter's."""
    if tensor.role is not Role.OPTIMIZER_STATE:
        return None
    words = tensor.path.split("/")
    for start in range(1, len(words)):
        index = parameters.get("/".join(words[start:]))
        if index is not None and arguments[index].shape == tensor.shape:
            return index
    return None


# Shardy's op sharding rules, read as which dimensions of which tensors are the same factor.
#
# `([i, k], [k, j])->([i, j])` says of a dot that its operands share `k`. Dimensions that are one factor alone, of the same size, are the
# same dimension and so have the same name; a dimension made of several factors (`(ij)`, a reshape) is one of its own.

_FACTOR = re.compile(r"[a-z](?:_\d+)?")


class Rule(NamedTuple):
    """Factors of each operand and result dimension, and the communication that sharding some factors needs.

    - `reduction`: factors that need a reduction over their axes; `whole`: factors that must not be sharded
      (`need_replication`); `permuted`: factors that need data from neighboring shards, such as the windows of a
      convolution;
    - `blocked`: factors that do not propagate.
    """

    operands: tuple[tuple[tuple[str, ...], ...], ...]
    results: tuple[tuple[tuple[str, ...], ...], ...]
    sizes: dict[str, int]
    reduction: tuple[str, ...]
    whole: tuple[str, ...]
    permuted: tuple[str, ...]
    blocked: tuple[str, ...]


def rule_of(op: ir.Operation) -> Rule | None:
    """The rule that Shardy populated, if the operation has one."""
    return parse_rule(str(op.attributes["sdy.sharding_rule"])) if "sdy.sharding_rule" in op.attributes else None


@functools.lru_cache(maxsize=4096)
def parse_rule(text: str) -> Rule:
    """
    >>> rule = parse_rule("#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, j=16, k=4} reduction={k}>")
    >>> rule.operands[1], rule.results, rule.sizes["j"], rule.reduction
    ((('k',), ('j',)), ((('i',), ('j',)),), 16, ('k',))
    """
    body = text[text.index("<") + 1 : -1]
    mapping, _, rest = body.partition(" {")
    left, _, right = mapping.partition("->")
    sizes, _, kinds = rest.partition("}")
    return Rule(
        _tensors(left),
        _tensors(right),
        {name: int(size) for name, size in re.findall(r"([a-z](?:_\d+)?)=(\d+)", sizes)},
        *(_factors_of(kind, kinds) for kind in ("reduction", "need_replication", "permutation", "blocked_propagation")),
    )


def join_factors(rule: Rule, factor: str, other: str) -> str:
    """The text of a rule in which a factor is another one, over which nothing is reduced then.

    >>> join_factors(parse_rule("#sdy.op_sharding_rule<([j, k], [i])->([i]) {i=8, j=8, k=4} reduction={j, k}>"), "j", "i")
    '#sdy.op_sharding_rule<([i, j], [i])->([i]) {i=8, j=4} reduction={j}>'
    """
    names = dict(zip([name for name in rule.sizes if name != factor], rule.sizes, strict=False))
    names[factor] = names[other]

    def written(tensors: Sequence[tuple[tuple[str, ...], ...]]) -> str:
        return ", ".join(f"[{', '.join(''.join(names[name] for name in dim) for dim in dims)}]" for dims in tensors)

    sizes = ", ".join(f"{names[name]}={size}" for name, size in rule.sizes.items() if name != factor)
    reduction = tuple(name for name in rule.reduction if name not in (factor, other))
    kinds = {"reduction": reduction, "need_replication": rule.whole, "permutation": rule.permuted, "blocked_propagation": rule.blocked}
    lists = "".join(f" {kind}={{{', '.join(names[name] for name in factors)}}}" for kind, factors in kinds.items() if factors)
    return f"#sdy.op_sharding_rule<({written(rule.operands)})->({written(rule.results)}) {{{sizes}}}{lists}>"


def _factors_of(kind: str, kinds: str) -> tuple[str, ...]:
    match = re.search(rf"\b{kind}=\{{([^}}]*)\}}", kinds)
    return tuple(_FACTOR.findall(match[1])) if match else ()


def _tensors(side: str) -> tuple[tuple[tuple[str, ...], ...], ...]:
    return tuple(
        tuple(tuple(_FACTOR.findall(dim)) for dim in tensor.split(",")) if tensor.strip() else ()
        for tensor in re.findall(r"\[([^\]]*)\]", side)
    )
