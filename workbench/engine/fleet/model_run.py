"""One model of a fleet during training: its units on each device, its state on the host, and its progress."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.engine.fleet.device_and_host_arrays import HostStore
from workbench.engine.fleet.partitioned_model import CompiledUnit
from workbench.engine.worker.failure_messages import in_user_terms
from workbench.errors import FleetError, WorkbenchError, unknown_name
from workbench.multimodel import Job
from workbench.multimodel.fleet import Fleet, FleetModel

Feed = Callable[[int], Sequence[Any]]


@dataclass
class ModelRun:
    """Progress of one model: `begun` units are dispatched, `done` are back on the host; idle if these are equal."""

    model: FleetModel
    job: Job
    feed: Feed
    store: HostStore
    units: tuple[tuple[CompiledUnit, ...], ...]  # per device, in mini-batch order
    begun: int = 0
    done: int = 0
    last: int = 0
    resumed_units: int = 0  # from a checkpoint
    arrival_time: float = 0.0  # seconds from the start of the run, for a model added later
    started: float = float("-inf")
    returned_at: float = 0.0  # `time.perf_counter()` when the last unit's results reached the host
    losses: list[float] = field(default_factory=list)
    batch: tuple[int, dict[int, Any]] = (-1, {})
    checkpoint_facts: dict[str, Any] = field(default_factory=dict)  # identity of the program, stored in the checkpoint
    halt_unit: int = 0  # unit before which it ends, if an earlier run has stopped it
    ended: str = ""  # reason for ending before its last mini-batch
    failure: WorkbenchError | None = None  # raised by its data

    @property
    def is_idle(self) -> bool:
        return self.begun == self.done < self.last

    def resume(self, position: Mapping[str, Any]) -> None:
        """Continue from the checkpoint. A model stopped by its loss stays stopped, unless it is to train longer."""
        self.done = self.begun = self.resumed_units = position["done"]
        self.losses = list(position["losses"])
        reached = next((loss for loss in self.losses if self.is_below_stop(loss)), None)
        if reached is not None:
            length = len(self.job.units)
            self.last = self.halt_unit = min(self.last, -(-self.done // length) * length)
            self.ended = self.stopped_text(reached)

    def is_below_stop(self, loss: float | None) -> bool:
        return loss is not None and self.model.stop_below is not None and loss < self.model.stop_below

    def stopped_text(self, loss: float) -> str:
        return f"stopped: loss {loss:.4g} is below its stop_below of {self.model.stop_below:g}"

    def truncate_job(self, job: Job) -> Job:
        """Return the job with its length on arrival: a model stopped by its checkpoint ends there."""
        return replace(job, mini_batches=self.halt_unit // len(job.units), epochs=1) if self.halt_unit else job

    def position(self, done: int) -> Mapping[str, Any]:
        """Return a checkpoint's contents after `done` units, unaffected by later progress."""
        return {"done": done, "losses": list(self.losses), **self.checkpoint_facts}

    def read_leaf(self, step: int, number: int) -> Any:
        """Return a leaf of mini-batch `step`; raises `FleetError` at the end of the data, `EngineError` for other
        errors.
        """
        if self.batch[0] != step:
            try:
                leaves = self.feed(step)
            except WorkbenchError:
                raise
            except (StopIteration, IndexError) as error:
                raise data_ran_out_error(self.model, step) from error
            except Exception as error:  # a user's function may raise anything
                raise data_read_error(self.model, step, error) from error
            self.batch = (step, dict(enumerate(leaves)))
        return self.batch[1][number]


def data_ran_out_error(model: FleetModel, step: int) -> FleetError:
    batches = model.mini_batches * model.epochs
    ways_out = ["use fewer mini-batches or epochs", "repeat the data"]
    return FleetError(f"The data of model `{model.name}` ends at mini-batch {step + 1} of {batches}.", ways_out)


def data_read_error(model: FleetModel, step: int, error: Exception) -> WorkbenchError:
    """Build the error for a failing user function, with the model and the requested mini-batch."""
    return in_user_terms(error, Fleet((model,)), f"reading mini-batch {step + 1} of {model.mini_batches * model.epochs}")


def find_run(model_runs: Sequence[ModelRun], name: str) -> ModelRun:
    """Return the model run of this name; raises `FleetError` for an unknown name."""
    run = next((candidate for candidate in model_runs if candidate.model.name == name), None)
    if run is None:
        raise FleetError(*unknown_name("model", name, (candidate.model.name for candidate in model_runs)))
    return run
