"""Shardy, the partitioner JAX uses, run in this process. The only room that touches MLIR."""

from workbench.partition.attributes import Dims as Dims
from workbench.partition.attributes import local_shape as local_shape
from workbench.partition.backend import HALVES as HALVES
from workbench.partition.backend import backend_of as backend_of
from workbench.partition.collect import Propagated as Propagated
from workbench.partition.collect import partition as partition
from workbench.partition.fusion import kernels_of as kernels_of
from workbench.partition.garbage import no_collection as no_collection
from workbench.partition.kernels import Kernels as Kernels
from workbench.partition.location import readable_path as readable_path
from workbench.partition.lowered import OPERATION as OPERATION
from workbench.partition.lowered import module_of as module_of
from workbench.partition.lowered import write_layout as write_layout
from workbench.partition.marks import kernel_scope as kernel_scope
from workbench.partition.naming import value_names as value_names
from workbench.partition.own import own_annotations as own_annotations
from workbench.partition.padded import padding_list as padding_list
from workbench.partition.placements import argument_placements as argument_placements
from workbench.partition.placements import arguments_placed as arguments_placed
from workbench.partition.placements import result_placements as result_placements
from workbench.partition.program import prepare_program as prepare_program
from workbench.partition.program import structure_of as structure_of
from workbench.partition.replay import propagation_of as propagation_of
from workbench.partition.resharding import reshard_list as reshard_list
from workbench.partition.reshards import collectives as collectives
