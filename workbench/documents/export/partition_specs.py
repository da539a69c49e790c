"""Export a plan as a `PartitionSpec` for every argument: a module that needs only JAX, and gives a pytree for a tree of its paths."""

from workbench.documents.export.spec_text import comment_text, folded_shardings, literal, other_statements, plain_text, spec_text
from workbench.plan.plan import Plan

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
    """A Python module: `SPECS` by path, and `partition_specs(tree, root)`, which needs no workbench. Other statements are comments."""
    lines = [f"    {literal(path)}: {spec_text(sharding)}," for path, sharding in folded_shardings(plan).items()]
    constraints = [comment_text(each) for each in other_statements(plan.layout)]
    mesh = f"jax.make_mesh({literal(plan.mesh.sizes)}, {literal(plan.mesh.names)})"
    sections = [
        f'"""The sharding of each argument of {plain_text(plan.name)}, for {mesh}."""',
        "",
        "import re",
        "",
        "import jax",
        "from jax.sharding import NamedSharding, PartitionSpec as P",
        "",
        "# By path, `*` for the number of a layer; what is not named is replicated.",
        *(["SPECS = {", *lines, "}"] if lines else ["SPECS = {}"]),
        *(["", "# The plan also says this, which no argument's PartitionSpec does:", *constraints] if constraints else []),
        "",
    ]
    return "\n".join(sections) + "\n" + _LOOKUP
