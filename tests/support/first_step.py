"""What of a first training step may be compared closely, whatever machine orders its sums."""

from collections.abc import Mapping, Sequence

import numpy as np

from workbench.core.program import Program

_CHOICES = ("top_k", "sort")
_STEPS = ("maximum", "select_and_scatter", "reduce_precision")


def moment_slack(program: Program) -> float:
    """How far a first moment may be off, of its largest element.

    A ReLU whose argument is round-off, as the middle of what was normalised is, passes its gradient on or not as sums are ordered; what is
    rounded to bfloat16 goes up or down; a token that two experts suit alike goes to either, and is much of what one of them sees.
    """
    kinds = {each.kind for each in program.operations}
    if any(choice in kind for kind in kinds for choice in _CHOICES):
        return 0.1
    return 1e-2 if kinds & {*_STEPS} else 1e-5


def decided(program: Program, results: Sequence[np.ndarray]) -> Mapping[str, np.ndarray]:
    """Path of a weight: which of its elements Adam's first update decides. That update is the gradient's sign times the rate, and where the
    gradient is within the error of a float32 sum the sign is that of how the sum was ordered: its first moment says whether it is right."""
    least = max(1e-3, 2 * moment_slack(program))
    moments = {tensor.path.partition("/mu/")[2]: value for tensor, value in zip(program.results, results, strict=True)}
    return {f"params/{path}": (m == 0) | (np.abs(m) > least * np.abs(m).max(initial=0)) for path, m in moments.items() if path}
