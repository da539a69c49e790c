"""From JAX functions to programs: `trace` any function, `trace_training` a loss and an optimiser, `constrain` intermediate values."""

from workbench.tracing.constrain import constrain as constrain
from workbench.tracing.function import trace as trace
from workbench.tracing.training import trace_training as trace_training
