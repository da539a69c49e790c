"""What no plan of a program needs less of, whatever its layout and schedule: the seconds of its dots, the bytes of its arguments."""

from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.cost.gpu_dots import has_tensor_cores
from workbench.cost.tiled_bytes import tiled_bytes
from workbench.hardware.hardware import Chip, Hardware
from workbench.plan.plan import Plan
from workbench.propagation import structure_of
from workbench.propagation.structure.program_structure import Op
from workbench.search.bounds.relaxed_blocks import DATA
from workbench.search.candidates import PlanCandidate
from workbench.search.figures import NOMINAL
from workbench.search.traced_programs import ON_DEVICE

_WINOGRAD, _MASKED = 4.0, 2.0


def program_seconds(program: Program, hardware: Hardware | None) -> float:
    """Seconds of the program's dots on one device as fast as the planner lets it make any (`cost.kernel_times`), without what is computed
    again."""
    structure = structure_of(program)
    seconds = 0.0
    for op in structure.ops:
        if op.work.flops and not op.is_recomputed:
            dtype = structure.values[op.operands[0]].dtype
            rate = _highest_rate(op, dtype, hardware.chip) if hardware else NOMINAL
            seconds += op.work.flops * structure.regions[op.region].runs_per_step / rate
    return seconds


def _highest_rate(op: Op, dtype: str, chip: Chip) -> float:
    """FLOP/s that no kernel for a dot is above. One of a hand-written kernel may skip half of it, what a mask hides; a convolution on a GPU
    may multiply a fourth of what its FLOPs say (Winograd's F(4 x 4, 3 x 3)), or its groups on the vector unit."""
    reached = max(chip.efficiency_of("matmul"), *(chip.efficiency.get(kind, 0.0) for kind in ("attention", "attention_backward")))
    rate = chip.peak(dtype) * reached * chip.efficiency_of("sustained")
    if op.work.convolution is not None and (op.work.convolution.groups > 1 or not has_tensor_cores(chip, dtype)):
        return _WINOGRAD * rate
    return _MASKED * rate if op.custom_kernel else rate


def least_bytes(plan: Plan, core: PlanCandidate) -> float:
    """Bytes of the arguments on one device, were they shared evenly among replicas and stages; without those that the host keeps."""
    tile = plan.hardware.chip.array_tile if plan.hardware else ()
    placed = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    here = (each for each in placed if core.offload == ON_DEVICE or each[0].role is not Role.OPTIMIZER_STATE)
    total = sum(tiled_bytes(tuple(sharding.local_shape(tensor.shape, plan.mesh)), tensor.dtype, tile) for tensor, sharding in here)
    return total / (core.size(DATA) * core.size("stage"))
