"""What XLA's SPMD partitioner sends by itself, where Shardy's collectives say nothing: borders, rotations, whole operands.

A member a kind of operator, each after the source of the compiler that will run it; `ALL_OPERATORS` drives the tests. Gathers, scatters
and sorts are not here: Shardy's own collectives around them are those that XLA makes.
"""

from jax.extend.mlir import ir

from workbench.partition.own_communication.convolution import CONVOLUTION
from workbench.partition.own_communication.dynamic import DYNAMIC_SLICE, DYNAMIC_UPDATE
from workbench.partition.own_communication.fourier import FOURIER
from workbench.partition.own_communication.placed import Answer as Answer
from workbench.partition.own_communication.placed import Own as Own
from workbench.partition.own_communication.placed import Placed as Placed
from workbench.partition.own_communication.placed import Sent as Sent
from workbench.partition.own_communication.placed import Tensor as Tensor
from workbench.partition.own_communication.reshaping import RESHAPING
from workbench.partition.own_communication.reversal import REVERSAL
from workbench.partition.own_communication.rotation import CONCATENATION
from workbench.partition.own_communication.selection import SELECTION
from workbench.partition.own_communication.slicing import PAD, SLICE
from workbench.partition.own_communication.top_k import TOP_K
from workbench.partition.own_communication.windowed_reduction import WINDOWED_REDUCTION

ALL_OPERATORS = (
    *(CONVOLUTION, WINDOWED_REDUCTION, SELECTION, SLICE, PAD, REVERSAL, CONCATENATION),
    *(DYNAMIC_SLICE, DYNAMIC_UPDATE, FOURIER, TOP_K, RESHAPING),
)
_BY_KIND = {kind: operator for operator in ALL_OPERATORS for kind in operator.kinds}


def own_of(op: ir.Operation) -> Own | None:
    """What an operation may send by itself, whatever the layout; `None` if it never does."""
    operator = _BY_KIND.get(op.name)
    if operator is None or (facts := operator.read(op)) is None:
        return None
    return Own(operator, facts)
