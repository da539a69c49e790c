"""All export formats of a plan."""

from collections.abc import Callable
from typing import NamedTuple

from workbench.documents.export.axis_rules import export_axis_rules, export_maxtext_rules
from workbench.documents.export.partition_specs import export_partition_specs
from workbench.documents.export.script import export_script
from workbench.plan.plan import Plan


class Export(NamedTuple):
    """One format: `ending` is the suffix of its file name."""

    key: str
    label: str
    about: str
    ending: str
    write: Callable[[Plan], str]


ALL_EXPORTS = (
    Export("script", "JAX script", "A complete script: builds the program, lays it out and trains a few steps.", ".py", export_script),
    Export(
        "specs",
        "PartitionSpecs",
        "A module that knows JAX alone; partition_specs(tree, root) gives a pytree for your parameters.",
        "_specs.py",
        export_partition_specs,
    ),
    Export("rules", "Logical axis rules", "For flax.linen.logical_axis_rules and its like.", "_rules.py", export_axis_rules),
    Export("maxtext", "MaxText rules", "The same as YAML, for MaxText's configuration.", "_rules.yml", export_maxtext_rules),
)
