"""Sharding propagation by Shardy, JAX's partitioner, run in this process. Only this package uses MLIR."""

from workbench.core.pause_gc import gc_paused as gc_paused
from workbench.propagation.annotate_lowered_module import CALLED as CALLED
from workbench.propagation.annotate_lowered_module import OPERATION as OPERATION
from workbench.propagation.annotate_lowered_module import module_of as module_of
from workbench.propagation.annotate_lowered_module import write_layout as write_layout
from workbench.propagation.argument_shardings import argument_placements as argument_placements
from workbench.propagation.argument_shardings import read_argument_placements as read_argument_placements
from workbench.propagation.argument_shardings import result_placements as result_placements
from workbench.propagation.explain.replay_propagation import propagation_of as propagation_of
from workbench.propagation.module.function_calls import set_library_call_stacks as set_library_call_stacks
from workbench.propagation.module.infer_dim_names import value_names as value_names
from workbench.propagation.module.shardy_attributes import Dims as Dims
from workbench.propagation.module.shardy_attributes import local_shape as local_shape
from workbench.propagation.module.source_location import kernel_scope as kernel_scope
from workbench.propagation.module.source_location import readable_path as readable_path
from workbench.propagation.padding_report import padding_list as padding_list
from workbench.propagation.prepared_program import prepare_program as prepare_program
from workbench.propagation.prepared_program import source_annotations as source_annotations
from workbench.propagation.prepared_program import structure_of as structure_of
from workbench.propagation.propagated_plan import Propagated as Propagated
from workbench.propagation.propagated_plan import partition as partition
from workbench.propagation.propagated_plan import read_result_dims as read_result_dims
from workbench.propagation.reshard_report import reshard_list as reshard_list
from workbench.propagation.shardy_collectives import collectives as collectives
from workbench.propagation.xla_backends import TWO_BYTE_FLOATS as TWO_BYTE_FLOATS
from workbench.propagation.xla_backends import backend_of as backend_of
