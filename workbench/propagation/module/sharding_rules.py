"""Shardy's op sharding rules, read as which dimensions of which tensors are the same factor.

`([i, k], [k, j])->([i, j])` says of a dot that its operands share `k`. Dimensions that are one factor alone, of the same
size, are the same dimension and so have the same name; a dimension made of several factors (`(ij)`, a reshape) is one of its own.
"""

import functools
import re
from typing import NamedTuple

from jax.extend.mlir import ir

_FACTOR = re.compile(r"[a-z](?:_\d+)?")


class Rule(NamedTuple):
    """Factors per operand and result dimension, and what sharding some of them needs.

    - `reduction`: a reduction over the axes that shard them; `whole`: that they are not sharded at all (`need_replication`); `permuted`: a
      part of the neighbours', as along the windows of a convolution;
    - `blocked`: those that do not propagate.
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


def _factors_of(kind: str, kinds: str) -> tuple[str, ...]:
    found = re.search(rf"\b{kind}=\{{([^}}]*)\}}", kinds)
    return tuple(_FACTOR.findall(found[1])) if found else ()


def _tensors(side: str) -> tuple[tuple[tuple[str, ...], ...], ...]:
    return tuple(
        tuple(tuple(_FACTOR.findall(dim)) for dim in tensor.split(",")) if tensor.strip() else ()
        for tensor in re.findall(r"\[([^\]]*)\]", side)
    )
