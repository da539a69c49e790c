"""XLA's partitioner in a separate warm process: a check that fails inside XLA ends that process, and becomes an error message here."""

from workbench.engine.partitioner.partitioner_client import WarmWorker as WarmWorker
from workbench.engine.partitioner.partitioner_client import pack_question as pack_question
from workbench.engine.partitioner.partitioner_client import shared_worker as shared_worker
from workbench.engine.partitioner.plan_partitioning import partition_plan as partition_plan
from workbench.engine.partitioner.plan_partitioning import start_partition as start_partition
