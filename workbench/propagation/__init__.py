"""Shardy, the partitioner JAX uses, run in this process. The only room that touches MLIR."""

from workbench.propagation.backends.backend import TWO_BYTE_FLOATS as TWO_BYTE_FLOATS
from workbench.propagation.backends.backend import backend_of as backend_of
from workbench.propagation.explain.axis_history import propagation_of as propagation_of
from workbench.propagation.make_program import prepare_program as prepare_program
from workbench.propagation.make_program import structure_of as structure_of
from workbench.propagation.module.attributes import Dims as Dims
from workbench.propagation.module.attributes import local_shape as local_shape
from workbench.propagation.module.garbage import gc_paused as gc_paused
from workbench.propagation.module.infer_dim_names import value_names as value_names
from workbench.propagation.module.kernel_scopes import kernel_scope as kernel_scope
from workbench.propagation.module.location import readable_path as readable_path
from workbench.propagation.padding_report import padding_list as padding_list
from workbench.propagation.placements import argument_placements as argument_placements
from workbench.propagation.placements import read_argument_placements as read_argument_placements
from workbench.propagation.placements import result_placements as result_placements
from workbench.propagation.read_answer import Propagated as Propagated
from workbench.propagation.read_answer import partition as partition
from workbench.propagation.read_source_annotations import source_annotations as source_annotations
from workbench.propagation.reshard_report import reshard_list as reshard_list
from workbench.propagation.shardy_collectives import collectives as collectives
from workbench.propagation.write_statements import CALLED as CALLED
from workbench.propagation.write_statements import OPERATION as OPERATION
from workbench.propagation.write_statements import module_of as module_of
from workbench.propagation.write_statements import write_layout as write_layout
