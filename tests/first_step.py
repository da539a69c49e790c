"""What of a first training step may be compared closely, whatever machine orders its sums."""

from collections.abc import Mapping, Sequence

import numpy as np

from workbench.program import Program
from workbench.tensor import Tensor

_KINKS = ("maximum", "select_and_scatter")


def decided(tensors: Sequence[Tensor], results: Sequence[np.ndarray]) -> Mapping[str, np.ndarray]:
    """Path of a weight: which of its elements Adam's first update decides. That update is the gradient's sign times the rate, and where the
    gradient is within the error of a float32 sum the sign is that of how the sum was ordered: its first moment says whether it is right."""
    moments = {tensor.path.partition("/mu/")[2]: value for tensor, value in zip(tensors, results, strict=True)}
    return {f"params/{path}": (m == 0) | (np.abs(m) > 1e-3 * np.abs(m).max(initial=0)) for path, m in moments.items() if path}


def moment_slack(program: Program) -> float:
    """How far a first moment may be off, of its largest element. A ReLU whose argument is round-off, as the middle of what was normalised
    is, passes its gradient on or not as sums are ordered."""
    return 1e-2 if any(each.kind in _KINKS for each in program.operations) else 1e-5
