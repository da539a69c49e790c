"""Programs that are a step of inference: they carry a cache from step to step, and learn nothing."""

from workbench.core.program import Program
from workbench.core.tensor import Role

CACHE, BATCH = "cache", "batch"


def carries_cache(program: Program) -> bool:
    """Whether a program takes a cache and gives it back, as `trace_inference` has it: a prefill or a step of decoding."""
    return any(each.role is Role.MODEL_STATE and each.path.split("/")[0] == CACHE for each in program.arguments)


def decoded_sequences(program: Program) -> int:
    """How many sequences get a token in a step of decoding, its batch; 0 for any other program: it is given more than a token of each."""
    batch = program.dims.get(BATCH, (0,))[0]
    small = all(program.arguments[each].elements <= batch for each in program.inputs)
    return batch if carries_cache(program) and small else 0
