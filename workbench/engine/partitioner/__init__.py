"""XLA's partitioner in a separate warm process: a check that fails inside XLA ends that process, and becomes an error message here."""

from workbench.engine.partitioner.answers import partition_plan as partition_plan
from workbench.engine.partitioner.answers import start_partition as start_partition
from workbench.engine.partitioner.worker import WarmWorker as WarmWorker
from workbench.engine.partitioner.worker import pack_question as pack_question
from workbench.engine.partitioner.worker import shared_worker as shared_worker
