"""All export formats of a plan, among them logical axis rules and a `PartitionSpec` per argument."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from workbench.documents.jax_script import comment_text, export_script, folded_shardings, literal, other_statements, plain_text, spec_text
from workbench.plan.plan import Plan

# Logical axis rules, by which Flax, MaxText and similar libraries shard named dimensions.
#
# They cannot express overrides of tensors or constraints of values; these are written as comments, so that nothing is lost
# silently.


def export_axis_rules(plan: Plan) -> str:
    """A Python module with `LOGICAL_AXIS_RULES` for `flax.linen.logical_axis_rules`; unsharded dimensions are `None`."""
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
    """The rules as YAML, as in MaxText's `base.yml` and `custom_mesh_and_rule` files; unsharded dimensions are omitted."""
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
    return ("'" + name.replace("'", "''") + "'" for name in names)


def _left_out_lines(plan: Plan) -> list[str]:
    statements = [f"{pattern}={sharding}" for pattern, sharding in plan.layout.overrides] + other_statements(plan.layout)
    if not statements:
        return []
    return ["", "# This plan also has decisions that rules by name cannot express:", *map(comment_text, statements)]


# A `PartitionSpec` for every argument: a module that needs only JAX and maps a tree of arguments to a pytree of specs.

_LOOKUP = '''
def partition_specs(tree, root):
    """A `PartitionSpec` for every leaf of `tree`, which is the argument `root` of the step: `partition_specs(params, "params")`."""

    def spec(keys, _leaf):
        words = [root, *(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in keys)]
        path = "/".join(words)
        every_layer = "/".join(re.sub(r"(?<![A-Za-z])\\d+$|(?<=[_.])\\d+$", "*", word) for word in words)
        return SPECS.get(path, SPECS.get(every_layer, P()))

    return jax.tree_util.tree_map_with_path(spec, tree)


def named_shardings(mesh, tree, root):
    """The same as `NamedSharding`s over `mesh`, for `jit` and `device_put`."""
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), partition_specs(tree, root), is_leaf=lambda leaf: isinstance(leaf, P))
'''


def export_partition_specs(plan: Plan) -> str:
    """A Python module with `SPECS` by path and `partition_specs(tree, root)`; other statements are comments."""
    lines = [f"    {literal(path)}: {spec_text(sharding)}," for path, sharding in folded_shardings(plan).items()]
    constraints = [comment_text(statement) for statement in other_statements(plan.layout)]
    mesh = f"jax.make_mesh({literal(plan.mesh.sizes)}, {literal(plan.mesh.names)})"
    sections = [
        f'"""The sharding of each argument of {plain_text(plan.name)}, for {mesh}."""',
        "",
        "import re",
        "",
        "import jax",
        "from jax.sharding import NamedSharding, PartitionSpec as P",
        "",
        "# By path, `*` for the number of a layer; unlisted arguments are replicated.",
        *(["SPECS = {", *lines, "}"] if lines else ["SPECS = {}"]),
        *(["", "# This plan also has decisions that no PartitionSpec of an argument expresses:", *constraints] if constraints else []),
        "",
    ]
    return "\n".join(sections) + "\n" + _LOOKUP


class Export(NamedTuple):
    """An export format; `ending` is the suffix of its file name."""

    key: str
    label: str
    about: str
    ending: str
    write: Callable[[Plan], str]


ALL_EXPORTS = (
    Export("script", "JAX script", "A complete script: builds the program, shards it and trains a few steps.", ".py", export_script),
    Export(
        "specs",
        "PartitionSpecs",
        "A module that needs only JAX; partition_specs(tree, root) returns a pytree for your parameters.",
        "_specs.py",
        export_partition_specs,
    ),
    Export("rules", "Logical axis rules", "For flax.linen.logical_axis_rules and similar APIs.", "_rules.py", export_axis_rules),
    Export("maxtext", "MaxText rules", "The same as YAML, for MaxText's configuration.", "_rules.yml", export_maxtext_rules),
)
