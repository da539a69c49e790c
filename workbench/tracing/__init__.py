"""From JAX functions to programs: `trace` any function, `trace_training` a loss and an optimizer, `constrain` values."""

from jax.ad_checkpoint import checkpoint_name as checkpoint_name

from workbench.core.path_patterns import template as template
from workbench.tracing.constrain import constrain as constrain
from workbench.tracing.grad_accumulation.micro_batch_marks import micro_batch_weight as micro_batch_weight
from workbench.tracing.grad_accumulation.micro_batch_marks import moving_average as moving_average
from workbench.tracing.grad_accumulation.micro_batch_marks import trace_micro_batch as trace_micro_batch
from workbench.tracing.grad_accumulation.micro_batch_marks import trace_update as trace_update
from workbench.tracing.jax_backends import silence_libtpu
from workbench.tracing.layer_marks import fused_kernel as fused_kernel
from workbench.tracing.layer_marks import keep_every_dot as keep_every_dot
from workbench.tracing.layer_marks import layer as layer
from workbench.tracing.layered_losses import scanned_loss as scanned_loss
from workbench.tracing.layered_losses import sequential_loss as sequential_loss
from workbench.tracing.named_optimizers import optimizer as optimizer
from workbench.tracing.trace_function import trace as trace
from workbench.tracing.trace_inference_step import trace_inference as trace_inference
from workbench.tracing.trace_step import trace_step as trace_step
from workbench.tracing.trace_training_step import trace_training as trace_training

silence_libtpu()  # must run before JAX's backends start
