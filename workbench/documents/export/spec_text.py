"""Shardings and other values as text of a script."""

import json

from workbench.core.layout import Layout
from workbench.core.layout_text import axes_text
from workbench.core.path_patterns import template
from workbench.core.sharding import Sharding
from workbench.plan.plan import Plan
from workbench.propagation import argument_placements


def folded_shardings(plan: Plan) -> dict[str, Sharding]:
    """Sharding by template where all its paths are sharded alike, else by path; what is replicated is left out."""
    groups: dict[str, dict[str, Sharding]] = {}
    for tensor, sharding in zip(plan.program.arguments, argument_placements(plan), strict=True):
        groups.setdefault(template(tensor.path), {})[tensor.path] = sharding
    folded: dict[str, Sharding] = {}
    for pattern, members in groups.items():
        alike = len(set(members.values())) == 1
        entries = {pattern: next(iter(members.values()))} if alike else members
        folded |= {path: sharding for path, sharding in entries.items() if sharding.axes}
    return folded


def spec_text(sharding: Sharding) -> str:
    """`P('data', None, ('model', 'pipe'))`, without the trailing `None`s."""
    entries = [literal(dim[0] if dim and len(dim) == 1 else dim or None) for dim in sharding.dims]
    while entries and entries[-1] == "None":
        entries.pop()
    return f"P({', '.join(entries)})"


def other_statements(layout: Layout) -> list[str]:
    """The statements that shardings of arguments leave out: constraints, priorities, groups and barriers."""
    priorities = [f"{dim}:{axes_text(axes, layout.priority(dim))}" for dim, axes in layout.rules if layout.priority(dim)]
    others = layout.updated(rules=(), overrides=(), priorities=())
    return [*others.statements, *priorities]


def literal(value: object) -> str:
    """`repr` with double quotes, as a formatter would write it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' * (len(value) == 1)})"
    return repr(value)


def comment_text(text: str, indent: int = 3) -> str:
    """Text as one comment, whatever line breaks it contains."""
    return f"#{' ' * indent}{' '.join(text.split())}"


def plain_text(text: str) -> str:
    """Text that cannot end a docstring."""
    return text.replace("\\", "\\\\").replace('"""', "'''")
