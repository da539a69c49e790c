"""One model of a fleet while it trains: its units on each device, its state on the host, and its progress."""

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
    """The progress of one model. `begun` units were given to a device, `done` are back on the host; it is idle when these are equal."""

    model: FleetModel
    job: Job
    feed: Feed
    store: HostStore
    units: tuple[tuple[CompiledUnit, ...], ...]  # per device, in the order of the mini-batch
    begun: int = 0
    done: int = 0
    last: int = 0
    resumed_units: int = 0  # from a checkpoint
    arrival_time: float = 0.0  # seconds from the start of the run, for a model that was added to it
    started: float = float("-inf")
    returned_at: float = 0.0  # when the last unit's results reached the host, by `time.perf_counter`
    losses: list[float] = field(default_factory=list)
    batch: tuple[int, dict[int, Any]] = (-1, {})
    checkpoint_facts: dict[str, Any] = field(default_factory=dict)  # the identity of the program, stored in its checkpoint
    halt_unit: int = 0  # the unit before which it ends, where an earlier run has stopped it
    ended: str = ""  # why it ended before its last mini-batch, in words
    failure: WorkbenchError | None = None  # the error its data raised

    @property
    def is_idle(self) -> bool:
        return self.begun == self.done < self.last

    def resume(self, position: Mapping[str, Any]) -> None:
        """Continue from the checkpoint. A model that its loss has stopped stays stopped; one that is now to train longer goes on."""
        self.done = self.begun = self.resumed_units = position["done"]
        self.losses = list(position["losses"])
        reached = next((each for each in self.losses if self.is_below_stop(each)), None)
        if reached is not None:
            length = len(self.job.units)
            self.last = self.halt_unit = min(self.last, -(-self.done // length) * length)
            self.ended = self.stopped_text(reached)

    def is_below_stop(self, loss: float | None) -> bool:
        """Whether the model stops after a mini-batch of that loss."""
        return loss is not None and self.model.stop_below is not None and loss < self.model.stop_below

    def stopped_text(self, loss: float) -> str:
        """The stop condition in words."""
        return f"stopped: loss {loss:.4g} is below its stop_below of {self.model.stop_below:g}"

    def truncate_job(self, job: Job) -> Job:
        """The job as long as it was to be when it arrived: a model that its checkpoint has stopped ends there."""
        return replace(job, mini_batches=self.halt_unit // len(job.units), epochs=1) if self.halt_unit else job

    def position(self, done: int) -> Mapping[str, Any]:
        """What a checkpoint records after so many units; later progress of the model does not change it."""
        return {"done": done, "losses": list(self.losses), **self.checkpoint_facts}

    def read_leaf(self, step: int, number: int) -> Any:
        """A leaf of mini-batch `step`; raises `FleetError` where the data run out, `EngineError` for whatever else a user's function
        raises."""
        if self.batch[0] != step:
            try:
                leaves = self.feed(step)
            except WorkbenchError:
                raise
            except (StopIteration, IndexError) as error:
                raise data_ran_out_error(self.model, step) from error
            except Exception as error:  # whatever a user's function raises
                raise data_read_error(self.model, step, error) from error
            self.batch = (step, dict(enumerate(leaves)))
        return self.batch[1][number]


def data_ran_out_error(model: FleetModel, step: int) -> FleetError:
    batches = model.mini_batches * model.epochs
    ways_out = ["use fewer mini-batches or epochs", "repeat the data"]
    return FleetError(f"The data of model `{model.name}` run out at mini-batch {step + 1} of {batches}.", ways_out)


def data_read_error(model: FleetModel, step: int, error: Exception) -> WorkbenchError:
    """The error for what a user's function raised, with the model and the mini-batch that was requested."""
    return in_user_terms(error, Fleet((model,)), f"reading mini-batch {step + 1} of {model.mini_batches * model.epochs}")


def find_run(model_runs: Sequence[ModelRun], name: str) -> ModelRun:
    """The model run of this name; raises `FleetError` where no model of the fleet has it."""
    found = next((each for each in model_runs if each.model.name == name), None)
    if found is None:
        raise FleetError(*unknown_name("model", name, (each.model.name for each in model_runs)))
    return found
