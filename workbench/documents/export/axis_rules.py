"""Export a plan as logical axis rules, by which Flax, MaxText and similar libraries say how a named dimension is sharded.

Such rules cannot express an override of one tensor or a constraint of one value: those are written as comments, so that nothing is lost
silently.
"""

from collections.abc import Iterator

from workbench.documents.export.spec_text import comment_text, literal, other_statements, plain_text
from workbench.plan.plan import Plan


def export_axis_rules(plan: Plan) -> str:
    """A Python module with `LOGICAL_AXIS_RULES`, for `flax.linen.logical_axis_rules`; a dimension kept whole is `None`."""
    rules = [f"    ({literal(dim)}, {_axes_text(plan.layout.rule(dim))})," for dim in plan.program.dims]
    mesh = f"jax.make_mesh({literal(plan.mesh.sizes)}, {literal(plan.mesh.names)})"
    return "\n".join(
        [
            f'"""Logical axis rules of {plain_text(plan.name)}, for {mesh}.',
            "",
            "    with mesh, flax.linen.logical_axis_rules(LOGICAL_AXIS_RULES):",
            "        ...",
            '"""',
            "",
            "LOGICAL_AXIS_RULES = (",
            *rules,
            ")",
            *_left_out_lines(plan),
            "",
        ]
    )


def export_maxtext_rules(plan: Plan) -> str:
    """The same as YAML, in the form of MaxText's `base.yml` and its `custom_mesh_and_rule` files; a dimension kept whole is left out."""
    rules = [f"  [{next(_quote_names((dim,)))}, [{', '.join(_quote_names(axes))}]]," for dim, axes in plan.layout.rules]
    return "\n".join(
        [
            comment_text(f"Logical axis rules of {plan.name}, mesh {plan.mesh}.", indent=1),
            f"mesh_axes: [{', '.join(_quote_names(plan.mesh.names))}]",
            *(["logical_axis_rules: [", *rules, "]"] if rules else ["logical_axis_rules: []"]),
            *_left_out_lines(plan),
            "",
        ]
    )


def _axes_text(axes: tuple[str, ...]) -> str:
    return literal(axes[0] if len(axes) == 1 else axes or None)


def _quote_names(names: tuple[str, ...]) -> Iterator[str]:
    """Names in YAML's single quotes."""
    return ("'" + name.replace("'", "''") + "'" for name in names)


def _left_out_lines(plan: Plan) -> list[str]:
    besides = [f"{pattern}={sharding}" for pattern, sharding in plan.layout.overrides] + other_statements(plan.layout)
    if not besides:
        return []
    return [
        "",
        "# Rules by name cannot say what this plan decides besides:",
        *map(comment_text, besides),
    ]
