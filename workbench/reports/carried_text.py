"""What a user's own step carries from step to step, as text."""

from collections.abc import Iterable

from workbench.core.program import Program
from workbench.core.text_tables import wrap_text

_MOST_PATHS = 8


def carried_text(program: Program) -> str:
    """The arguments that results replace in the next step, and those that are new in each step or only read.

    Empty for a function without state, and for a training step made from a loss, which carries its parameters by definition.
    """
    if not program.carried or program.step.training is not None:
        return ""
    carried = {argument for _, argument in program.carried}
    groups = {
        "Carried to the next step": carried,
        "New in each step": set(program.inputs) - carried,
        "Only read": set(program.state) - carried,
    }
    lines = [f"{title}: {_roots_text(program, indices)}." for title, indices in groups.items() if indices]
    return "\n".join(wrap_text(line) for line in lines)


def _roots_text(program: Program, indices: Iterable[int]) -> str:
    """`params (12 arrays), opt_state (25 arrays), key`."""
    counts: dict[str, int] = {}
    for index in sorted(indices):
        root = program.arguments[index].path.partition("/")[0]
        counts[root] = counts.get(root, 0) + 1
    shown = [root if count == 1 else f"{root} ({count} arrays)" for root, count in counts.items()]
    more = f" and {len(shown) - _MOST_PATHS} more" if len(shown) > _MOST_PATHS else ""
    return ", ".join(shown[:_MOST_PATHS]) + more
